//! `queue-scorer`: `(max - q) / (max - min)` over requests waiting in the engines.
//!
//! 1 for the shortest queue, 0 for the longest, 1 for all when they are equal (also for a single candidate). Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Signal, Stability};
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};

/// Prefers short queues.
#[derive(Debug)]
pub struct QueueScorer;

impl Scorer for QueueScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        super::min_max(scope, out, |c| c.waiting());
    }
}

/// Its row.
pub const ROW: Row = Row {
    needs: &[Need::required(DataKind::EngineMetrics)],
    signals: &[Signal::Waiting],
    formula: "(max - q) / (max - min), q = requests waiting; all equal: 1",
    build: Some(build),
    ..Row::new("queue-scorer", &[Kind::Scorer], Stability::Beta, "Prefers engines with few waiting requests.")
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance::scorer(QueueScorer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn scores(queues: &[Option<f64>]) -> Vec<f64> {
        let bench = Bench::new(queues.iter().enumerate().map(|(i, q)| {
            let e = endpoint(&format!("e{i}"));
            if let Some(q) = q { e.waiting(*q) } else { e }
        }));
        bench.scores(&QueueScorer)
    }

    #[test]
    fn the_shortest_queue_scores_one_and_the_longest_zero() {
        assert_eq!(scores(&[Some(0.0), Some(5.0), Some(10.0)]), [1.0, 0.5, 0.0]);
    }

    #[test]
    fn equal_queues_score_one() {
        assert_eq!(scores(&[Some(3.0), Some(3.0)]), [1.0, 1.0]);
        assert_eq!(scores(&[Some(7.0)]), [1.0]);
    }

    #[test]
    fn an_engine_never_heard_of_does_not_look_idle() {
        assert_eq!(scores(&[Some(5.0), None, Some(10.0)]), [1.0, 0.0, 0.0]);
        assert_eq!(scores(&[None, None]), [1.0, 1.0]);
    }
}
