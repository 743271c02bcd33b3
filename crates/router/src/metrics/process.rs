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
const PAGE: f64 = 4096.0;

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
        if let Some(pages) = statm() {
            gauge("process_resident_memory_bytes", "Resident memory size in bytes", pages * PAGE)?;
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

fn statm() -> Option<f64> {
    std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()
}

fn cpu() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The command in parentheses may hold blanks; fields are counted from behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let ticks = |i: usize| fields.get(i)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS)
}
