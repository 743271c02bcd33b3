//! `topology-affinity-filter`: keep endpoints near the one that an earlier profile chose.
//!
//! In a disaggregated fleet the second profile finds a partner for the endpoint that the first one chose. An endpoint stays when the nearest level that both
//! share (host, rack, zone, region) is at least as near as `minAffinity`. Nobody is dropped when there is no such endpoint, when nothing is known of where
//! it stands, or when nobody is near enough. Source: plugin specification 5.7.

use crate::build::{Build, Instance};
use crate::data_layer::topology_extractor::{Nearness, TopologyKeys};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Cycle, DataKind, Filter, Scope};
use std::sync::Arc;

/// Keeps what is near.
#[derive(Debug)]
pub struct TopologyAffinityFilter {
    wanted: Nearness,
    topology: Option<Arc<TopologyKeys>>,
}

impl Filter for TopologyAffinityFilter {
    fn filter(&self, cycle: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        let peer = cycle.peer.and_then(|peer| scope.all.get(peer as usize));
        let (Some(keys), Some(peer)) = (&self.topology, peer) else { return };
        let nearness = |c: usize| keys.nearness(peer.endpoint, scope.all[c].endpoint);
        let near = |c: usize| nearness(c).is_some_and(|n| n <= self.wanted);
        if !scope.iter().any(|(c, _)| near(c)) {
            return;
        }
        for (i, (c, _)) in scope.iter().enumerate() {
            if !near(c) {
                drop(i, Reason::Farther { shared: nearness(c).map(Nearness::name), wanted: self.wanted.name() });
            }
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("minAffinity", ParamKind::Enum(Nearness::NAMES), "The farthest level that must be shared.")
            .default("\"host\""),
        Param::new("topologyProducerName", ParamKind::String, "Extractor that says where endpoints stand.")
            .default("\"topology-extractor\""),
    ],
    needs: &[Need::optional(DataKind::Topology, "topologyProducerName")],
    example: "{minAffinity: zone}",
    example_needs: &["type: topology-extractor"],
    build: Some(build),
    ..Row::new(
        "topology-affinity-filter",
        &[Kind::Filter],
        Stability::Alpha,
        "Keeps endpoints near the one that an earlier profile chose.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::filter(TopologyAffinityFilter {
        wanted: Nearness::named(b.params.str("minAffinity")).unwrap_or(Nearness::Host),
        topology: b.topology("topologyProducerName"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn keys() -> Option<Arc<TopologyKeys>> {
        Some(Arc::new(TopologyKeys(["host", "rack", "zone", "region"].map(Arc::from))))
    }

    fn bench() -> Bench {
        let at = |name, host, rack, zone| endpoint(name).label("host", host).label("rack", rack).label("zone", zone);
        let mut bench = Bench::new([
            at("peer", "h1", "r1", "z1"),
            at("same-host", "h1", "r1", "z1"),
            at("same-rack", "h2", "r1", "z1"),
            at("same-zone", "h3", "r2", "z1"),
            at("away", "h4", "r3", "z2"),
            endpoint("nowhere"),
        ]);
        bench.peer = Some(0);
        bench
    }

    #[test]
    fn endpoints_stay_that_share_a_level_as_near_as_asked_for() {
        let kept = |wanted| bench().kept(&TopologyAffinityFilter { wanted, topology: keys() });
        assert_eq!(kept(Nearness::Host), ["peer", "same-host"]);
        assert_eq!(kept(Nearness::Rack), ["peer", "same-host", "same-rack"]);
        assert_eq!(kept(Nearness::Zone), ["peer", "same-host", "same-rack", "same-zone"]);
    }

    #[test]
    fn nobody_is_dropped_without_a_peer_or_where_it_stands_or_when_nobody_is_near() {
        let filter = TopologyAffinityFilter { wanted: Nearness::Host, topology: keys() };
        let mut bench = bench();
        bench.peer = None;
        assert_eq!(bench.kept(&filter).len(), 6);
        bench.peer = Some(5);
        assert_eq!(bench.kept(&filter).len(), 6, "nothing is known of where the peer stands");
        bench.peer = Some(99);
        assert_eq!(bench.kept(&filter).len(), 6);
        bench.peer = Some(0);
        assert_eq!(bench.kept(&TopologyAffinityFilter { wanted: Nearness::Host, topology: None }).len(), 6);
        let mut far = Bench::new([endpoint("a").label("host", "h1"), endpoint("b").label("host", "h2")]);
        far.peer = Some(0);
        far.with(|cycle, scope| {
            let others = Scope { all: scope.all, kept: &[1] };
            filter.filter(cycle, others, &mut |i, reason| panic!("{i} is dropped: {reason}"));
        });
    }
}
