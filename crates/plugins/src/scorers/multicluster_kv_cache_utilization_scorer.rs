//! `multicluster-kv-cache-utilization-scorer`: `1 - usage` of a pool of engines behind one endpoint.
//!
//! The endpoint is another cluster's picker, and the usage is the mean of its engines, as `multicluster-metrics-extractor` reads it. Source: plugin
//! specification 6.

use crate::attribute::EndpointAttribute;
use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};

/// What the usage is published as; it belongs to no instance.
pub const ATTRIBUTE: &str = "llm-d.ai/multicluster-kv-cache-utilization";

/// Prefers pools with free KV cache.
#[derive(Debug)]
pub struct MulticlusterKvCacheUtilizationScorer(EndpointAttribute);

impl Scorer for MulticlusterKvCacheUtilizationScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        super::by_signal(scope, out, |c| self.0.read(c), |usage| 1.0 - usage);
    }
}

/// Its row.
pub const ROW: Row = Row {
    needs: &[Need::required(DataKind::EngineMetrics)],
    formula: "1 - mean KV cache usage of the pool",
    build: Some(build),
    ..Row::new(
        "multicluster-kv-cache-utilization-scorer",
        &[Kind::Scorer],
        Stability::Alpha,
        "Prefers pools with free KV cache.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance::scorer(MulticlusterKvCacheUtilizationScorer(EndpointAttribute::new(ATTRIBUTE, "")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_score_is_the_free_share_and_an_unknown_one_ranks_last() {
        let bench = Bench::new([
            endpoint("a").attribute(ATTRIBUTE, "", 0.25),
            endpoint("b").attribute(ATTRIBUTE, "", 1.0),
            endpoint("c"),
        ]);
        let scorer = MulticlusterKvCacheUtilizationScorer(EndpointAttribute::new(ATTRIBUTE, ""));
        assert_eq!(bench.scores(&scorer), [0.75, 0.0, 0.0]);
    }
}
