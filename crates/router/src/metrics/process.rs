//! `process_*`: what dashboards read of any process, from `/proc`, at the moment of the scrape.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

#[derive(Debug)]
struct Process {
    started: f64,
}

/// Ticks per second of `/proc`: 100 on every Linux that Rust runs on.
const TICKS: f64 = 100.0;

pub(super) fn register(registry: &mut Registry) {
    let started = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
    registry.register_collector(Box::new(Process { started }));
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut gauge = |name: &str, help: &str, value: f64| {
            let metric = ConstGauge::new(value);
            metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
        };
        gauge("process_start_time_seconds", "Start time of the process since the Unix epoch in seconds", self.started)?;
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let (status, limits, stat) = (read("/proc/self/status"), read("/proc/self/limits"), read("/proc/self/stat"));
        if let Some(bytes) = size(&status, "VmRSS:") {
            gauge("process_resident_memory_bytes", "Resident memory size in bytes", bytes)?;
        }
        if let Some(bytes) = size(&status, "VmSize:") {
            gauge("process_virtual_memory_bytes", "Virtual memory size in bytes", bytes)?;
        }
        if let Some(bytes) = limit(&limits, "Max address space") {
            let help = "Maximum amount of virtual memory available in bytes";
            gauge("process_virtual_memory_max_bytes", help, bytes)?;
        }
        if let Ok(fds) = std::fs::read_dir("/proc/self/fd") {
            gauge("process_open_fds", "Number of open file descriptors", fds.count() as f64)?;
        }
        if let Some(fds) = limit(&limits, "Max open files") {
            gauge("process_max_fds", "Maximum number of open file descriptors", fds)?;
        }
        if let Some(seconds) = cpu(&stat) {
            let metric = ConstCounter::new(seconds);
            let help = "Total user and system CPU time spent in seconds";
            metric.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}

/// A line of `/proc/self/status`, in bytes.
fn size(status: &str, name: &str) -> Option<f64> {
    let line = status.lines().find_map(|l| l.strip_prefix(name))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0)
}

/// The soft limit of a line of `/proc/self/limits`. No limit is the largest number there is, as other exporters have it.
fn limit(limits: &str, name: &str) -> Option<f64> {
    let line = limits.lines().find_map(|l| l.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

fn cpu(stat: &str) -> Option<f64> {
    // The command in parentheses may hold blanks; fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_proc_says_is_read_in_bytes_and_numbers() {
        let status = "Name:\tx\nVmSize:\t   12 kB\nVmRSS:\t    3 kB\n";
        assert_eq!(size(status, "VmSize:"), Some(12288.0));
        assert_eq!(size(status, "VmRSS:"), Some(3072.0));
        assert_eq!(size(status, "VmSwap:"), None);
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max open files            1024                 524288               files     \n\
                      Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(u64::MAX as f64));
        assert_eq!(limit(limits, "Max locked memory"), None);
        let mut stat = String::from("7 (a b) c) S");
        (1..=20).for_each(|i| stat.push_str(&format!(" {i}")));
        assert_eq!(cpu(&stat), Some((11.0 + 12.0) / TICKS));
    }
}
