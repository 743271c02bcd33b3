//! `multicluster-kv-cache-utilization-scorer`: `1 - usage` of a pool of engines behind one endpoint.
//!
//! The endpoint is another cluster's picker, and the usage is the mean of its engines, as `multicluster-metrics-extractor` reads it. Source: plugin
//! specification 6.

use crate::attribute::EndpointAttribute;
use crate::build::{Build, Instance};
use crate::data_layer::multicluster_metrics_extractor::KV_CACHE_UTILIZATION;
use crate::row::{Kind, Row, Stability};
use pointsman_scheduling::{Cycle, Scope, Scorer};

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
    formula: "1 - mean KV cache usage of the pool",
    example_needs: &["type: multicluster-metrics-extractor"],
    build: Some(build),
    ..Row::new(
        "multicluster-kv-cache-utilization-scorer",
        &[Kind::Scorer],
        Stability::Alpha,
        "Prefers pools with free KV cache.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::scorer(MulticlusterKvCacheUtilizationScorer(EndpointAttribute::of_extractor(
        b,
        KV_CACHE_UTILIZATION,
        "multicluster-metrics-extractor",
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_score_is_the_free_share_and_an_unknown_one_ranks_last() {
        let bench = Bench::new([
            endpoint("a").attribute(KV_CACHE_UTILIZATION, "", 0.25),
            endpoint("b").attribute(KV_CACHE_UTILIZATION, "", 1.0),
            endpoint("c"),
        ]);
        let scorer = MulticlusterKvCacheUtilizationScorer(EndpointAttribute::new(KV_CACHE_UTILIZATION, ""));
        assert_eq!(bench.scores(&scorer), [0.75, 0.0, 0.0]);
    }
}
