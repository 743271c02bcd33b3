//! Processors and what processes use of them, read from Linux.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What `/proc/PID/stat` counts in.
const TICK: Duration = Duration::from_millis(10);

/// One processor for the server under test, another for whoever loads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cores {
    /// The server's.
    pub(super) server: usize,
    /// The load generator's and the engines'.
    pub(super) load: usize,
}

impl Cores {
    /// The first two processors that this process may use.
    pub(super) fn two() -> Result<Self> {
        let allowed = sched_getaffinity(None).context("cannot read the affinity")?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
        match (cores.next(), cores.next()) {
            (Some(load), Some(server)) => Ok(Self { server, load }),
            _ => bail!("a benchmark needs two processors: one for the server, one for the load"),
        }
    }
}

/// Binds the calling thread, and what it starts from now on, to one processor.
pub(super) fn bind(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("cannot move to processor {core}"))
}

/// Processor time of a process.
///
/// The kernel tells it in nanoseconds per living thread, and in hundredths of a second with the ended threads included. The
/// former serves unless threads have ended, which the latter shows.
pub(super) fn processor_time(process: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).context("the process is gone")?;
    let all =
        ticks(&stat).map(|ticks| Duration::from_secs(ticks) / 100).context("an unknown form of /proc/PID/stat")?;
    let living = of_threads(process, 0)?;
    Ok(if living + TICK * 2 < all { all } else { living })
}

/// Time that the threads of a process were ready to run but had no processor.
pub(super) fn waiting_time(process: u32) -> Result<Duration> {
    of_threads(process, 1)
}

/// The sum over the living threads of a field of their `schedstat`.
fn of_threads(process: u32, field: usize) -> Result<Duration> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).context("the process is gone")?;
    let nanos = threads.filter_map(|thread| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').nth(field)?.parse::<u64>().ok()
    });
    Ok(Duration::from_nanos(nanos.sum()))
}

/// User and system time in hundredths of a second, which Linux reports whatever its own tick is.
fn ticks(stat: &str) -> Option<u64> {
    // The name, the second field, may hold spaces and parentheses; what follows its last parenthesis does not.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// The most memory that a process ever had resident, MiB.
pub(super) fn peak_memory(process: u32) -> Result<f64> {
    memory(process, "VmHWM:")
}

/// The memory that a process has resident, MiB.
pub(crate) fn resident_memory(process: u32) -> Result<f64> {
    memory(process, "VmRSS:")
}

fn memory(process: u32, key: &str) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).context("the process is gone")?;
    let line = status.lines().find_map(|line| line.strip_prefix(key)).context("no such line in /proc/PID/status")?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().context("not a number of kB")?;
    Ok(kib / 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_found_behind_any_name() {
        let stat = "42 (a ) b) S 1 42 42 0 -1 4194560 10 0 0 0 250 50 0 0 20 0 3 0 100 1000 200";
        assert_eq!(ticks(stat), Some(300));
    }

    #[test]
    fn a_process_has_memory_and_had_at_least_as_much() {
        let own = std::process::id();
        assert!(processor_time(own).unwrap() > Duration::ZERO);
        // Other tests of this process go on meanwhile: the peak is read last.
        let resident = resident_memory(own).unwrap();
        assert!(resident > 1.0);
        assert!(peak_memory(own).unwrap() >= resident);
    }
}
