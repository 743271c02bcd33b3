//! `active-request-scorer`: few requests in flight through this router.
//!
//! `r <= idleThreshold` scores 1; otherwise `(max - r) / max * maxBusyScore`, `max` over the candidates. These counts are known at once,
//! where scraped gauges lag by an interval: it is what keeps a burst from landing on one engine. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};

/// Prefers endpoints with few requests in flight.
#[derive(Debug)]
pub struct ActiveRequestScorer {
    idle_threshold: u64,
    max_busy_score: f64,
}

impl Scorer for ActiveRequestScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let max = scope.iter().map(|(_, c)| c.in_flight).max().unwrap_or(0) as f64;
        for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
            let r = candidate.in_flight;
            *out = if r <= self.idle_threshold { 1.0 } else { (max - r as f64) / max * self.max_busy_score };
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "idleThreshold",
            ParamKind::INTEGER,
            "Up to so many requests in flight an endpoint counts as idle; negative means 0.",
        )
        .default("0"),
        Param::new(
            "maxBusyScore",
            ParamKind::NUMBER,
            "Score that a busy endpoint approaches, 0 to 1; outside means 1.",
        )
        .default("1.0"),
        Param::new("inFlightLoadProducerName", ParamKind::String, "Producer of the counts.")
            .default("\"inflight-load-producer\""),
        Param::new("requestTimeout", ParamKind::Any, "Ignored.").deprecated("it is ignored"),
    ],
    needs: &[Need::named(DataKind::InFlightLoad, "inFlightLoadProducerName")],
    formula: "r <= idleThreshold: 1; else (max - r) / max * maxBusyScore, r = requests in flight through this router",
    build: Some(build),
    ..Row::new(
        "active-request-scorer",
        &[Kind::Scorer],
        Stability::Beta,
        "Prefers endpoints with few requests in flight through this router.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let max_busy_score = b.params.f64("maxBusyScore");
    if !(0.0..=1.0).contains(&max_busy_score) {
        b.corrected("maxBusyScore", "1.0");
    }
    if b.params.i64("idleThreshold") < 0 {
        b.corrected("idleThreshold", "0");
    }
    Instance::scorer(ActiveRequestScorer {
        idle_threshold: b.params.i64("idleThreshold").max(0) as u64,
        max_busy_score: if (0.0..=1.0).contains(&max_busy_score) { max_busy_score } else { 1.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn scores(in_flight: &[u64], idle_threshold: u64, max_busy_score: f64) -> Vec<f64> {
        let bench = Bench::new(in_flight.iter().enumerate().map(|(i, r)| endpoint(&format!("e{i}")).in_flight(*r)));
        bench.scores(&ActiveRequestScorer { idle_threshold, max_busy_score })
    }

    #[test]
    fn idle_endpoints_score_one_and_busy_ones_by_their_distance_to_the_busiest() {
        assert_eq!(scores(&[0, 1, 3, 5], 0, 0.5), [1.0, 0.4, 0.2, 0.0]);
        assert_eq!(scores(&[2, 3, 5], 2, 0.5), [1.0, 0.2, 0.0]);
        assert_eq!(scores(&[0, 0], 0, 1.0), [1.0, 1.0]);
    }
}
