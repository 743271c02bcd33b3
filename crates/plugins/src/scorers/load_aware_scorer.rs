//! `load-aware-scorer`: `0.5 * (1 - min(q, T) / T)`; an empty queue scores 0.5, a queue of `threshold` or more 0.
//!
//! Never above 0.5, so that it only ever breaks ties of stronger scorers. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Signal, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};

const DEFAULT_THRESHOLD: f64 = 128.0;

/// Prefers short queues on an absolute scale.
#[derive(Debug)]
pub struct LoadAwareScorer {
    threshold: f64,
}

impl Scorer for LoadAwareScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let t = self.threshold;
        super::by_signal(scope, out, |c| c.waiting(), |q| 0.5 * (1.0 - q.clamp(0.0, t) / t));
        if scope.iter().all(|(_, c)| c.waiting().is_none()) {
            out.fill(0.5);
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new(
        "threshold",
        ParamKind::INTEGER,
        "Waiting requests at which the score reaches 0; 0 or less means 128.",
    )
    .default("128")],
    needs: &[Need::required(DataKind::EngineMetrics)],
    signals: &[Signal::Waiting],
    formula: "0.5 * (1 - min(q, threshold) / threshold), q = requests waiting",
    build: Some(build),
    ..Row::new(
        "load-aware-scorer",
        &[Kind::Scorer],
        Stability::Beta,
        "Prefers short queues on an absolute scale; never above 0.5.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let threshold = b.params.i64("threshold") as f64;
    if threshold <= 0.0 {
        b.corrected("threshold", "128");
    }
    Instance::scorer(LoadAwareScorer { threshold: if threshold > 0.0 { threshold } else { DEFAULT_THRESHOLD } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_score_falls_from_a_half_to_zero_at_the_threshold() {
        let queues = [0.0, 32.0, 64.0, 128.0, 500.0];
        let bench = Bench::new(queues.iter().enumerate().map(|(i, q)| endpoint(&format!("e{i}")).waiting(*q)));
        assert_eq!(bench.scores(&LoadAwareScorer { threshold: 128.0 }), [0.5, 0.375, 0.25, 0.0, 0.0]);
    }
}
