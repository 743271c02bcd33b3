//! What the heap holds.

use crate::{ProfilingError, forget_symbols};
use jemalloc_pprof::PROF_CTL;
use std::sync::Arc;
use tikv_jemalloc_ctl::profiling;

/// What is allocated now and was met by the allocator's sampling, with the stacks that allocated it. Sizes are estimates of the whole.
///
/// # Errors
/// When the allocator does not sample, or cannot write its profile to a temporary file.
pub async fn heap() -> Result<Vec<u8>, ProfilingError> {
    // Asked first: the handle below takes it for granted that the allocator was built to sample.
    let samples = profiling::prof::read().unwrap_or(false);
    let Some(control) = samples.then(|| PROF_CTL.as_ref()).flatten() else { return Err(ProfilingError::HeapUnsampled) };
    let mut control = Arc::clone(control).lock_owned().await;
    if !control.activated() {
        return Err(ProfilingError::HeapUnsampled);
    }
    let dumped = tokio::task::spawn_blocking(move || {
        let dumped = control.dump_pprof().map_err(|e| format!("{e:#}"));
        forget_symbols();
        dumped
    });
    dumped.await.map_err(|e| ProfilingError::Failed(e.to_string()))?.map_err(ProfilingError::Failed)
}
