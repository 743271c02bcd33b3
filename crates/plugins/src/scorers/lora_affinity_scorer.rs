//! `lora-affinity-scorer`: where the requested adapter is loaded, or could be.
//!
//! 1.0 when the target model is among the running adapters; else 0.8 when a slot is free; else 0.6 when it waits to be loaded; else 0. An engine
//! without adapter metrics (no slots) scores 0, so a base model never gains. What an engine told of its adapters
//! longer ago than the staleness bound counts as unknown, and scores 0 too. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Signal, Stability};
use pointsman_fleet::LoraInfo;
use pointsman_scheduling::{Candidate, Cycle, DataKind, Scope, Scorer};

/// Prefers engines that hold the adapter.
#[derive(Debug)]
pub struct LoraAffinityScorer;

fn rate(lora: &LoraInfo, model: &str) -> f64 {
    if lora.is_active(model) {
        1.0
    } else if lora.active().len() + lora.waiting().len() < lora.max_active() as usize {
        0.8
    } else if lora.is_waiting(model) {
        0.6
    } else {
        0.0
    }
}

/// Whether what the engine told of its adapters is recent enough. Without a bound (0), whatever it ever told is.
fn is_known(candidate: &Candidate<'_>) -> bool {
    candidate.endpoint.engine.lora_at() > candidate.fresh_since
}

impl Scorer for LoraAffinityScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
            *out = if is_known(candidate) {
                rate(&candidate.endpoint.engine.lora(), &cycle.request.target_model)
            } else {
                0.0
            };
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    needs: &[Need::required(DataKind::EngineMetrics)],
    signals: &[Signal::Lora],
    formula: "adapter running: 1; a slot free: 0.8; adapter waiting: 0.6; else, and when unknown: 0",
    build: Some(build),
    ..Row::new(
        "lora-affinity-scorer",
        &[Kind::Scorer],
        Stability::Beta,
        "Prefers engines that hold the requested adapter.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance::scorer(LoraAffinityScorer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use pointsman_core::Nanos;
    use pointsman_scheduling::{Facts, Request};
    use std::time::Duration;

    fn info(max: u32, active: &[&str], waiting: &[&str]) -> LoraInfo {
        LoraInfo::new(max, active.iter().map(|s| (*s).into()), waiting.iter().map(|s| (*s).into()))
    }

    #[test]
    fn a_loaded_adapter_beats_a_free_slot_beats_a_waiting_one() {
        assert_eq!(rate(&info(2, &["x"], &[]), "x"), 1.0);
        assert_eq!(rate(&info(2, &["y"], &[]), "x"), 0.8);
        assert_eq!(rate(&info(2, &["y", "z"], &["x"]), "x"), 0.6);
        assert_eq!(rate(&info(2, &["y", "z"], &[]), "x"), 0.0);
    }

    /// Scores for adapter `x` of engines that were last read at 1 s, at `now`.
    fn scores(now: Nanos, stale_after: Duration) -> Vec<f64> {
        let bench = Bench::new([
            endpoint("active").lora(info(2, &["x"], &[])),
            endpoint("room").lora(info(2, &[], &[])),
            endpoint("silent").waiting(3.0),
        ]);
        let read = |(i, e)| Candidate::read(e, i, now, stale_after);
        let all: Vec<Candidate<'_>> = (0..).zip(bench.endpoints()).map(read).collect();
        let (request, facts) = (Request { target_model: "x".into(), ..Request::default() }, Facts::default());
        let mut out = vec![9.0; all.len()];
        let scope = Scope { all: &all, kept: &[0, 1, 2] };
        LoraAffinityScorer.score(
            &Cycle { request: &request, facts: &facts, now, peer: None, seed: 0, shadow: false },
            scope,
            &mut out,
        );
        out
    }

    #[test]
    fn adapters_told_longer_ago_than_the_staleness_bound_are_unknown() {
        let second = |s: u64| Nanos(s * 1_000_000_000);
        assert_eq!(scores(second(5), Duration::from_secs(5)), [1.0, 0.8, 0.0]);
        assert_eq!(scores(second(7), Duration::from_secs(5)), [0.0, 0.0, 0.0]);
        assert_eq!(scores(second(1000), Duration::ZERO), [1.0, 0.8, 0.0], "without a bound they are kept for ever");
    }

    #[test]
    fn without_adapter_metrics_nobody_scores() {
        assert_eq!(rate(&info(0, &[], &[]), "base"), 0.0);
    }
}
