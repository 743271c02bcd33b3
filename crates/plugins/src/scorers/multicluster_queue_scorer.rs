//! `multicluster-queue-scorer`: `(max - q) / (max - min)` over the mean queue of the pools behind the endpoints.
//!
//! The endpoint is another cluster's picker, and `q` is the mean over its engines, as `multicluster-metrics-extractor` reads it. An unknown queue takes no
//! part and scores 0. Source: plugin specification 6.

use crate::attribute::EndpointAttribute;
use crate::build::{Build, Instance};
use crate::data_layer::multicluster_metrics_extractor::QUEUE_SIZE;
use crate::row::{Kind, Row, Stability};
use pointsman_scheduling::{Cycle, Scope, Scorer};

/// Prefers pools with short queues.
#[derive(Debug)]
pub struct MulticlusterQueueScorer(EndpointAttribute);

impl Scorer for MulticlusterQueueScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        super::min_max(scope, out, |c| self.0.read(c));
    }
}

/// Its row.
pub const ROW: Row = Row {
    formula: "(max - q) / (max - min), q = mean queue of the pool; all equal: 1",
    example_needs: &["type: multicluster-metrics-extractor"],
    build: Some(build),
    ..Row::new("multicluster-queue-scorer", &[Kind::Scorer], Stability::Alpha, "Prefers pools with short queues.")
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::scorer(MulticlusterQueueScorer(EndpointAttribute::of_extractor(
        b,
        QUEUE_SIZE,
        "multicluster-metrics-extractor",
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn pools_are_ranked_by_their_queue_and_an_unknown_one_takes_no_part() {
        let pool = |name, queue| endpoint(name).attribute(QUEUE_SIZE, "", queue);
        let bench = Bench::new([pool("a", 2.5), pool("b", 10.0), endpoint("c"), pool("d", 0.0)]);
        let scorer = MulticlusterQueueScorer(EndpointAttribute::new(QUEUE_SIZE, ""));
        assert_eq!(bench.scores(&scorer), [0.75, 0.0, 0.0, 1.0]);
    }
}
