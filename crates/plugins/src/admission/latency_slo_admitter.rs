//! `latency-slo-admitter`: turn away what may be shed when no endpoint is expected to meet its latency objectives.
//!
//! A request is refused when all of this holds: its priority is below 0; it comes with an objective of the time to
//! first token or per output token above 0; some endpoint has a prediction; no endpoint is expected to meet both
//! objectives; none is known to be idle (no request running); none is known to be cold (KV cache used below 2 %).
//! Refused with 429 `rejected-saturated`. Source: plugin specification 10.1, 3.2 and its `Wart:` lines.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::headers::{SLO_TPOT, SLO_TPOT_OLD, SLO_TTFT, SLO_TTFT_OLD};
use pointsman_core::{DropReason, ErrorCode, Refusal};
use pointsman_scheduling::{Admitter, ColumnId, Cycle, DataKind, LatencyPrediction, Request, Scope};
use std::sync::Arc;

/// Share of the KV cache in use below which an engine counts as cold.
const COLD: f64 = 0.02;

/// Refuses what cannot be served in time.
#[derive(Debug)]
pub struct LatencySloAdmitter {
    predictions: Option<ColumnId<LatencyPrediction>>,
}

/// Whether the request comes with a latency objective.
fn has_objective(request: &Request) -> bool {
    [[SLO_TTFT, SLO_TTFT_OLD], [SLO_TPOT, SLO_TPOT_OLD]].iter().any(|[name, old]| {
        let value = request.header(name).or_else(|| request.header(old));
        value.and_then(|v| v.trim().parse::<f64>().ok()).is_some_and(|ms| ms > 0.0)
    })
}

impl Admitter for LatencySloAdmitter {
    fn admit(&self, cycle: &Cycle<'_>, all: Scope<'_>) -> Result<(), Refusal> {
        if cycle.request.priority >= 0 || !has_objective(cycle.request) {
            return Ok(());
        }
        let predicted = self.predictions.and_then(|id| cycle.facts.column(id)).unwrap_or_default();
        let met = predicted.iter().any(|p| p.ttft_valid && p.tpot_valid);
        let free = |(_, c): (usize, &pointsman_scheduling::Candidate<'_>)| {
            c.running() == Some(0.0) || c.kv_usage().is_some_and(|used| used < COLD)
        };
        if !predicted.iter().any(LatencyPrediction::is_known) || met || all.iter().any(free) {
            return Ok(());
        }
        let message = "no valid endpoint available to serve the request";
        Err(Refusal::new(ErrorCode::ResourceExhausted, message).because(DropReason::Saturated))
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new("latencyPredictionInfoProducerName", ParamKind::String, "Producer of the predictions.")
        .default("\"predicted-latency-producer\"")],
    needs: &[
        Need::optional(DataKind::LatencyPrediction, "latencyPredictionInfoProducerName"),
        Need::required(DataKind::EngineMetrics),
    ],
    build: Some(build),
    ..Row::new(
        "latency-slo-admitter",
        &[Kind::Admission],
        Stability::Beta,
        "Refuses requests of negative priority whose latency objectives nobody is expected to meet.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    b.warning_of_all(super::NO_PRIORITIES);
    let admitter = LatencySloAdmitter { predictions: b.column("latencyPredictionInfoProducerName") };
    Instance { admitter: Some(Arc::new(admitter)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, Made, endpoint};

    const LATE: LatencyPrediction = LatencyPrediction {
        ttft_ms: 900.0,
        tpot_ms: 10.0,
        ttft_headroom_ms: -400.0,
        tpot_headroom_ms: 10.0,
        ttft_valid: false,
        tpot_valid: true,
        dispatched: 3,
    };

    fn busy() -> Made {
        endpoint("a").running(3.0).kv(0.5)
    }

    fn admits(made: Made, priority: i32, header: (&str, &str), predicted: Option<LatencyPrediction>) -> bool {
        let (mut bench, id) = Bench::new([made]).header(header.0, header.1).columns(|c| c.column());
        bench.request.priority = priority;
        if let Some(predicted) = predicted {
            bench.facts.fill(id, vec![predicted]);
        }
        let admitter = LatencySloAdmitter { predictions: Some(id) };
        let admitted = bench.with(|cycle, all| admitter.admit(cycle, all));
        if let Err(refusal) = &admitted {
            assert_eq!((refusal.code.status(), refusal.reason), (429, Some(DropReason::Saturated)));
        }
        admitted.is_ok()
    }

    #[test]
    fn only_what_may_be_shed_has_an_objective_and_meets_it_nowhere_is_refused() {
        let slo = (SLO_TTFT, "500");
        assert!(!admits(busy(), -1, slo, Some(LATE)));
        assert!(!admits(busy(), -1, (SLO_TPOT_OLD, "5.5"), Some(LATE)));
        assert!(admits(busy(), 0, slo, Some(LATE)));
        for none in [("x-other", "500"), (SLO_TTFT, "0"), (SLO_TTFT, "soon"), (SLO_TTFT, "NaN")] {
            assert!(admits(busy(), -1, none, Some(LATE)), "{none:?}");
        }
        assert!(admits(busy(), -1, slo, None));
        assert!(admits(busy(), -1, slo, Some(LatencyPrediction { ttft_valid: true, ..LATE })));
    }

    #[test]
    fn an_idle_or_a_cold_endpoint_lets_everything_in_and_an_unknown_one_is_neither() {
        let slo = (SLO_TTFT, "500");
        assert!(admits(endpoint("a").running(0.0).kv(0.5), -1, slo, Some(LATE)));
        assert!(admits(endpoint("a").running(3.0).kv(0.019), -1, slo, Some(LATE)));
        assert!(!admits(endpoint("a").running(3.0).kv(0.02), -1, slo, Some(LATE)));
        assert!(!admits(endpoint("a"), -1, slo, Some(LATE)));
    }
}
