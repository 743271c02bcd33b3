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
        if let Some(kib) = resident_kib() {
            gauge("process_resident_memory_bytes", "Resident memory size in bytes", kib * 1024.0)?;
        }
        if let Ok(fds) = std::fs::read_dir("/proc/self/fd") {
            gauge("process_open_fds", "Number of open file descriptors", fds.count() as f64)?;
        }
        if let Some(seconds) = cpu() {
            let metric = ConstCounter::new(seconds);
            let help = "Total user and system CPU time spent in seconds";
            metric.encode(encoder.encode_descriptor("process_cpu_seconds", help, None, metric.metric_type())?)?;
        }
        Ok(())
    }
}

fn resident_kib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command in parentheses may hold blanks; fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}
