//! What the heap holds.

use crate::{LONGEST, ProfilingError, forget_symbols};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use jemalloc_pprof::{JemallocProfCtl, PROF_CTL};
use prost::Message;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::Duration;
use tikv_jemalloc_ctl::profiling;
use tokio::sync::OwnedMutexGuard;

/// What is held and was met by the allocator's sampling, with the stacks that allocated it. Sizes are estimates of the whole.
///
/// A process that samples from its start (`_RJEM_MALLOC_CONF=prof_active:true`) answers at once, with everything it holds. Another one samples for `seconds`, 1
/// to [`LONGEST`], and answers with what was allocated in that time and is still held.
///
/// # Errors
/// When the allocator does not sample and no time is given, or one out of range; when it cannot sample, or cannot write its profile to a temporary file.
pub async fn heap(seconds: Option<u64>) -> Result<Vec<u8>, ProfilingError> {
    if seconds.is_some_and(|s| !(1..=LONGEST).contains(&s)) {
        return Err(ProfilingError::Seconds);
    }
    // Asked first: the handle below takes it for granted that the allocator was built to sample.
    let samples = profiling::prof::read().unwrap_or(false);
    let Some(control) = samples.then(|| PROF_CTL.as_ref()).flatten() else { return Err(ProfilingError::HeapUnknown) };
    let mut control = Sampling { control: Arc::clone(control).lock_owned().await, ends: false };
    if !control.control.activated() {
        let Some(seconds) = seconds else { return Err(ProfilingError::HeapUnsampled) };
        control.control.activate().map_err(|e| ProfilingError::Failed(e.to_string()))?;
        control.ends = true;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
    let dumped = tokio::task::spawn_blocking(move || {
        let dumped = control.control.dump_pprof().map_err(|e| format!("{e:#}"));
        drop(control);
        forget_symbols();
        without_allocator(&dumped?).map_err(|e| e.to_string())
    });
    dumped.await.map_err(|e| ProfilingError::Failed(e.to_string()))?.map_err(ProfilingError::Failed)
}

/// The allocator's sampling, which ends with whoever began it, also when nobody waits for the profile any more.
struct Sampling {
    control: OwnedMutexGuard<JemallocProfCtl>,
    ends: bool,
}

impl Drop for Sampling {
    fn drop(&mut self) {
        if self.ends {
            // It fails only where it could not have begun.
            let _ = self.control.deactivate();
        }
    }
}

/// What viewers leave out of a stack, with all that it calls: the allocator itself, which would else be the place where everything was allocated.
const ALLOCATOR: &str = "_rjem_.*|prof_backtrace.*|(__rustc::)?__rust_(re)?alloc.*|.*tikv_jemallocator.*";

/// The fields of a profile that [`without_allocator`] needs.
#[derive(Clone, PartialEq, Message)]
struct Strings {
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "7")]
    drop_frames: i64,
}

/// Says in a profile what to leave out. Two messages of one kind, one after the other, are their union, so it need not be written anew.
fn without_allocator(profile: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    GzDecoder::new(profile).read_to_end(&mut bytes)?;
    let known = Strings::decode(&bytes[..]).map_err(std::io::Error::other)?.string_table.len();
    let added = Strings { string_table: vec![ALLOCATOR.to_owned()], drop_frames: known as i64 };
    bytes.extend(added.encode_to_vec());
    let mut gz = GzEncoder::new(Vec::new(), Compression::default());
    gz.write_all(&bytes)?;
    gz.finish()
}
