//! Where the process spends its time.

use crate::format::Cpu;
use crate::{ProfilingError, forget_symbols};
use std::time::Duration;
use tokio::sync::Mutex;

/// Seconds that a profile may take at most.
pub const LONGEST: u64 = 300;

/// Samples per second and core. Not a hundred: what beats ten times a second would be met at the same place every time.
const FREQUENCY: i32 = 99;

/// Unwinding from inside these may wait for a lock that the interrupted code holds.
const NOT_FROM: [&str; 4] = ["libc", "libgcc", "pthread", "vdso"];

static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Samples the whole process for `seconds`, 1 to [`LONGEST`]. The first profile takes some 80 MiB for stacks, which the profiler keeps for the next one.
///
/// # Errors
/// When the time is out of range, another profile is being taken, or the timer cannot be set.
pub async fn cpu(seconds: u64) -> Result<Vec<u8>, ProfilingError> {
    if !(1..=LONGEST).contains(&seconds) {
        return Err(ProfilingError::Seconds);
    }
    let Ok(_mine) = ONE_AT_A_TIME.try_lock() else { return Err(ProfilingError::Busy) };
    let failed = |e: pprof::Error| ProfilingError::Failed(e.to_string());
    // Dropped with this future, when whoever asked goes away: sampling ends then, too.
    let guard =
        pprof::ProfilerGuardBuilder::default().frequency(FREQUENCY).blocklist(&NOT_FROM).build().map_err(failed)?;
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let encoded = tokio::task::spawn_blocking(move || {
        let report = guard.report().build().map_err(failed)?;
        drop(guard);
        let encoded = Cpu::new(FREQUENCY as u32).encode(&report);
        forget_symbols();
        Ok(encoded)
    });
    encoded.await.map_err(|e| ProfilingError::Failed(e.to_string()))?
}
