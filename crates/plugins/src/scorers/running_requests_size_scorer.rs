//! `running-requests-size-scorer`: `(max - r) / (max - min)` over requests running in the engines.
//!
//! Edge cases as [`super::queue_scorer`]. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Signal, Stability};
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};

/// Prefers engines that run few requests.
#[derive(Debug)]
pub struct RunningRequestsSizeScorer;

impl Scorer for RunningRequestsSizeScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        super::min_max(scope, out, |c| c.running());
    }
}

/// Its row.
pub const ROW: Row = Row {
    needs: &[Need::required(DataKind::EngineMetrics)],
    signals: &[Signal::Running],
    formula: "(max - r) / (max - min), r = requests running; all equal: 1",
    build: Some(build),
    ..Row::new(
        "running-requests-size-scorer",
        &[Kind::Scorer],
        Stability::Beta,
        "Prefers engines that run few requests.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance::scorer(RunningRequestsSizeScorer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn few_running_requests_score_high() {
        let bench = Bench::new([endpoint("a").running(1.0), endpoint("b").running(4.0), endpoint("c").running(9.0)]);
        assert_eq!(bench.scores(&RunningRequestsSizeScorer), [1.0, 0.625, 0.0]);
    }
}
