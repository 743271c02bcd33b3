//! The series that one kind of request moves: those of its model, target, fairness id and priority.

use super::histogram::Histogram;
use super::in_flight::EndpointSeries;
use hashbrown::HashMap;
use parking_lot::RwLock;
use pointsman_scheduling::Termination;
use pointsman_wire::usage::Usage;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A histogram under both names.
#[derive(Debug)]
pub(super) struct Twin {
    pub(super) new: Histogram,
    pub(super) old: Option<Histogram>,
}

impl Twin {
    fn observe(&self, value: f64) {
        self.new.observe(value);
        if let Some(old) = &self.old {
            old.observe(value);
        }
    }
}

/// The series of one model, target, fairness id and priority. What only a routed request moves is made when the first one is routed: whoever sends
/// requests that are refused must not fill the page with histograms.
#[derive(Debug)]
pub(crate) struct RequestSeries {
    pub(super) key: Key,
    pub(super) received: Counter,
    pub(super) routed: OnceLock<RoutedSeries>,
    pub(super) endpoints: RwLock<HashMap<u64, Arc<EndpointSeries>>>,
}

/// Identity of a series: its labels, each of a bounded set.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) model: Arc<str>,
    pub(super) target: Arc<str>,
    pub(super) fairness: Arc<str>,
    pub(super) priority: i32,
}

/// The series of requests that were routed.
#[derive(Debug)]
pub(super) struct RoutedSeries {
    pub(super) total: (Counter, Counter),
    pub(super) engine_errors: (Counter, Counter),
    pub(super) disconnects: Counter,
    pub(super) aborts: Counter,
    pub(super) running: Option<(Gauge, Gauge)>,
    pub(super) duration: Twin,
    pub(super) size: Twin,
    pub(super) response_size: Twin,
    pub(super) input: Twin,
    pub(super) output: Twin,
    pub(super) cached: Twin,
    pub(super) ntpot: Twin,
    pub(super) ttft: [Histogram; 2],
    pub(super) tpot: Histogram,
    pub(super) itl: Histogram,
}

/// How a routed request ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// How.
    pub how: Termination,
    /// The engine answered with an error, or not at all.
    pub engine_failed: bool,
    /// Tokens as the engine counted them.
    pub usage: Option<Usage>,
    /// From receipt to now.
    pub duration: Duration,
    /// From receipt to the first body byte.
    pub ttft: Option<Duration>,
    /// Bytes of the response's body.
    pub response_bytes: u64,
    /// Whether it was a stream.
    pub streaming: bool,
}

impl RequestSeries {
    pub(crate) fn received(&self) {
        self.received.inc();
    }

    pub(crate) fn gap(&self, gap: Duration) {
        if let Some(routed) = self.routed.get() {
            routed.itl.observe(gap.as_secs_f64());
        }
    }

    pub(crate) fn ended(&self, ended: &Ended) {
        if let Some(routed) = self.routed.get() {
            routed.ended(ended);
        }
    }
}

impl RoutedSeries {
    pub(super) fn started(&self, size_bytes: u64) {
        self.total.0.inc();
        self.total.1.inc();
        self.size.observe(size_bytes as f64);
        if let Some((new, old)) = &self.running {
            new.inc();
            old.inc();
        }
    }

    fn ended(&self, e: &Ended) {
        if let Some((new, old)) = &self.running {
            new.dec();
            old.dec();
        }
        if e.engine_failed {
            let (new, old) = &self.engine_errors;
            new.inc();
            old.inc();
        }
        if let Some(ttft) = e.ttft {
            self.ttft[usize::from(e.streaming)].observe(ttft.as_secs_f64());
        }
        match e.how {
            Termination::Natural => {}
            Termination::ClientDisconnect => {
                self.disconnects.inc();
                return;
            }
            Termination::Error | Termination::Shutdown => {
                self.aborts.inc();
                return;
            }
        }
        let duration = e.duration.as_secs_f64();
        self.duration.observe(duration);
        self.response_size.observe(e.response_bytes as f64);
        let Some(usage) = e.usage else { return };
        if usage.prompt > 0 {
            self.input.observe(usage.prompt as f64);
        }
        if usage.completion > 0 {
            self.output.observe(usage.completion as f64);
            self.ntpot.observe(duration / usage.completion as f64);
        }
        if let Some(cached) = usage.cached {
            self.cached.observe(cached as f64);
        }
        if let Some(ttft) = e.ttft.filter(|_| e.streaming && usage.completion > 1) {
            self.tpot.observe((e.duration.saturating_sub(ttft)).as_secs_f64() / (usage.completion - 1) as f64);
        }
    }
}
