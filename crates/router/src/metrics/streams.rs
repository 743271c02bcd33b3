//! ext-proc streams (metrics 2.6). Only a process that was asked for them (`--enable-grpc-stream-metrics`) has these families.

use super::histogram::Histogram;
use super::{Families, Metrics, buckets};
use pointsman_core::{Clock, Nanos};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Code {
    code: &'static str,
}

/// Counts streams of `ExternalProcessor/Process`. Clones share their counts.
#[derive(Clone, Debug)]
pub struct StreamMetrics {
    in_flight: Gauge,
    total: Family<Code, Counter>,
    duration: Histogram,
    clock: Arc<dyn Clock>,
}

/// Names of the gRPC status codes by number, as Go spells them.
const CODES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];
const CANCELED: u32 = 1;
const UNKNOWN: usize = 2;

impl StreamMetrics {
    /// Adds the families to a pool's page; once per pool. `clock` is the pool's.
    #[must_use]
    pub fn register(metrics: &Metrics, clock: Arc<dyn Clock>) -> Self {
        let streams = Self {
            in_flight: Gauge::default(),
            total: Family::default(),
            duration: Histogram::new(buckets::STREAM.iter().copied()),
            clock,
        };
        metrics.register(|registry| {
            // There are no deprecated names.
            let mut f = Families { registry, old: false };
            f.new_name("extproc_streams_inflight", "ext-proc streams that are open", streams.in_flight.clone());
            f.new_name("extproc_streams", "ext-proc streams that ended, by gRPC status code", streams.total.clone());
            let help = "Time that an ext-proc stream stays open in seconds";
            f.new_name("extproc_stream_duration_seconds", help, streams.duration.clone());
        });
        streams
    }

    /// A stream begins. It counts as open until the result is closed or dropped.
    #[must_use]
    pub fn opened(&self) -> OpenStream {
        self.in_flight.inc();
        OpenStream { since: self.clock.now(), metrics: self.clone(), code: CANCELED }
    }
}

/// A stream that is open. Dropped without a word, it was cancelled.
#[derive(Debug)]
pub struct OpenStream {
    metrics: StreamMetrics,
    since: Nanos,
    code: u32,
}

impl OpenStream {
    /// The stream ended with this gRPC status code, 0 to 16; others count as `Unknown`.
    pub fn closed(mut self, code: u32) {
        self.code = code;
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let m = &self.metrics;
        m.in_flight.dec();
        m.duration.observe(m.clock.now().since(self.since).as_secs_f64());
        let code = CODES.get(self.code as usize).copied().unwrap_or(CODES[UNKNOWN]);
        m.total.get_or_create(&Code { code }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_core::ManualClock;
    use std::time::Duration;

    #[test]
    fn a_stream_counts_once_under_its_code_and_for_as_long_as_it_was_open() {
        let metrics = Metrics::new("pool", Duration::ZERO, true);
        let clock = Arc::new(ManualClock::at(Nanos(1)));
        let streams = StreamMetrics::register(&metrics, Arc::clone(&clock) as Arc<dyn Clock>);
        let page = || {
            let fleet = pointsman_fleet::Fleet::new(Arc::clone(&clock) as Arc<dyn Clock>);
            metrics.render(&fleet.snapshot(), Nanos(1), false)
        };
        let (good, gone, odd, open) = (streams.opened(), streams.opened(), streams.opened(), streams.opened());
        clock.advance(Duration::from_millis(70));
        good.closed(0);
        drop(gone);
        odd.closed(99);
        let text = page();
        for line in [
            "llm_d_epp_extproc_streams_inflight 1",
            "llm_d_epp_extproc_streams_total{code=\"OK\"} 1",
            "llm_d_epp_extproc_streams_total{code=\"Canceled\"} 1",
            "llm_d_epp_extproc_streams_total{code=\"Unknown\"} 1",
            "llm_d_epp_extproc_stream_duration_seconds_bucket{le=\"0.1\"} 3",
            "llm_d_epp_extproc_stream_duration_seconds_bucket{le=\"0.05\"} 0",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        drop(open);
        assert!(page().contains("llm_d_epp_extproc_streams_inflight 0\n"));
    }
}
