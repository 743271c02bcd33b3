//! `lora-affinity-scorer`: where the requested adapter is loaded, or could be.
//!
//! 1.0 when the target model is among the running adapters; else 0.8 when a slot is free; else 0.6 when it waits to be loaded; else 0. An engine
//! without adapter metrics (no slots) scores 0, so a base model never gains. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_fleet::LoraInfo;
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};

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

impl Scorer for LoraAffinityScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
            *out = rate(&candidate.endpoint.engine.lora(), &cycle.request.target_model);
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    needs: &[Need::required(DataKind::EngineMetrics)],
    formula: "adapter running: 1; a slot free: 0.8; adapter waiting: 0.6; else 0",
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

    #[test]
    fn without_adapter_metrics_nobody_scores() {
        assert_eq!(rate(&info(0, &[], &[]), "base"), 0.0);
    }
}
