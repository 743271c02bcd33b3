//! `kv-cache-utilization-scorer`: `1 - usage`, usage from 0 to 1.
//!
//! Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Signal, Stability};
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};

/// Prefers engines with free KV cache.
#[derive(Debug)]
pub struct KvCacheUtilizationScorer;

impl Scorer for KvCacheUtilizationScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        super::by_signal(scope, out, |c| c.kv_usage(), |usage| 1.0 - usage);
    }
}

/// Its row.
pub const ROW: Row = Row {
    needs: &[Need::required(DataKind::EngineMetrics)],
    signals: &[Signal::KvUsage],
    formula: "1 - KV cache usage",
    build: Some(build),
    ..Row::new("kv-cache-utilization-scorer", &[Kind::Scorer], Stability::Beta, "Prefers engines with free KV cache.")
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance::scorer(KvCacheUtilizationScorer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_score_is_the_free_share() {
        let bench = Bench::new([endpoint("a").kv(0.37), endpoint("b").kv(1.0), endpoint("c").kv(0.0)]);
        assert_eq!(bench.scores(&KvCacheUtilizationScorer), [0.63, 0.0, 1.0]);
    }

    #[test]
    fn an_unknown_usage_ranks_behind_every_known_one() {
        let bench = Bench::new([endpoint("a").kv(0.9), endpoint("b")]);
        assert_eq!(bench.scores(&KvCacheUtilizationScorer)[1], 0.0);
    }
}
