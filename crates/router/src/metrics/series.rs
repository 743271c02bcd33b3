//! The series that one kind of request moves: those of its model, target, fairness id and priority.

use super::histogram::Histogram;
use super::in_flight::EndpointSeries;
use hashbrown::HashMap;
use parking_lot::RwLock;
use pointsman_core::ErrorCode;
use pointsman_scheduling::Termination;
use pointsman_wire::usage::Usage;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
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

/// The series of one model, target, fairness id and priority.
#[derive(Debug)]
pub(crate) struct RequestSeries {
    pub(super) received: Counter,
    pub(super) total: (Counter, Counter),
    pub(super) engine_errors: (Counter, Counter),
    pub(super) gateway_errors: (Counter, Counter),
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
    pub(super) target: Arc<str>,
    pub(super) fairness: Arc<str>,
    pub(super) priority: i32,
    pub(super) endpoints: RwLock<HashMap<u64, Arc<EndpointSeries>>>,
}

/// How a routed request ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    /// How.
    pub how: Termination,
    /// What is counted as an error.
    pub code: Option<ErrorCode>,
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

    pub(crate) fn started(&self, size_bytes: u64) {
        self.total.0.inc();
        self.total.1.inc();
        self.size.observe(size_bytes as f64);
        if let Some((new, old)) = &self.running {
            new.inc();
            old.inc();
        }
    }

    pub(crate) fn gap(&self, gap: Duration) {
        self.itl.observe(gap.as_secs_f64());
    }

    pub(crate) fn ended(&self, e: &Ended) {
        if let Some((new, old)) = &self.running {
            new.dec();
            old.dec();
        }
        let errors = match e.code {
            Some(ErrorCode::ModelServerError) => Some(&self.engine_errors),
            Some(_) => Some(&self.gateway_errors),
            None => None,
        };
        if let Some((new, old)) = errors {
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
