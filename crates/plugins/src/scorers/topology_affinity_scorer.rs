//! `topology-affinity-scorer`: prefer endpoints near the one that an earlier profile chose.
//!
//! The nearest level that both share counts: host 1, rack 0.20, zone 0.05, region 0.02, none 0. Without such an endpoint everybody scores 0.
//! Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::data_layer::topology_extractor::{Nearness, TopologyKeys};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{Cycle, DataKind, Scope, Scorer};
use std::sync::Arc;

/// Prefers what is near.
#[derive(Debug)]
pub struct TopologyAffinityScorer {
    topology: Option<Arc<TopologyKeys>>,
}

fn rate(nearness: Option<Nearness>) -> f64 {
    match nearness {
        Some(Nearness::Host) => 1.0,
        Some(Nearness::Rack) => 0.20,
        Some(Nearness::Zone) => 0.05,
        Some(Nearness::Region) => 0.02,
        None => 0.0,
    }
}

impl Scorer for TopologyAffinityScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let peer = cycle.peer.and_then(|peer| scope.all.get(peer as usize));
        let (Some(keys), Some(peer)) = (&self.topology, peer) else { return };
        for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
            *out = rate(keys.nearness(peer.endpoint, candidate.endpoint));
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new("topologyProducerName", ParamKind::String, "Extractor that says where endpoints stand.")
        .default("\"topology-extractor\"")],
    needs: &[Need::optional(DataKind::Topology, "topologyProducerName")],
    formula: "the nearest level shared with the endpoint chosen earlier: host 1, rack 0.20, zone 0.05, region 0.02, none 0",
    example_needs: &["type: topology-extractor"],
    build: Some(build),
    ..Row::new(
        "topology-affinity-scorer",
        &[Kind::Scorer],
        Stability::Alpha,
        "Prefers endpoints near the one that an earlier profile chose.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::scorer(TopologyAffinityScorer { topology: b.topology("topologyProducerName") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_nearest_level_that_is_shared_counts() {
        let at = |name, host, rack, zone, region| {
            endpoint(name).label("host", host).label("rack", rack).label("zone", zone).label("region", region)
        };
        let mut bench = Bench::new([
            at("peer", "h1", "r1", "z1", "g1"),
            at("rack", "h2", "r1", "z1", "g1"),
            at("zone", "h3", "r2", "z1", "g1"),
            at("region", "h4", "r3", "z2", "g1"),
            at("away", "h5", "r4", "z3", "g2"),
            endpoint("nowhere"),
        ]);
        let keys = Arc::new(TopologyKeys(["host", "rack", "zone", "region"].map(Arc::from)));
        let scorer = TopologyAffinityScorer { topology: Some(keys) };
        assert_eq!(bench.scores(&scorer), [0.0; 6], "nobody was chosen before");
        bench.peer = Some(0);
        assert_eq!(bench.scores(&scorer), [1.0, 0.20, 0.05, 0.02, 0.0, 0.0]);
        assert_eq!(bench.scores(&TopologyAffinityScorer { topology: None }), [0.0; 6]);
    }
}
