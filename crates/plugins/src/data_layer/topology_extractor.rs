//! `topology-extractor`: where an endpoint stands, by its labels: host, rack, zone, region.
//!
//! Nothing is copied: consumers read the labels of the endpoint by the keys given here. Source: plugin specification 12.4.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_fleet::Endpoint;
use pointsman_scheduling::DataKind;
use std::sync::Arc;

/// How near two endpoints are to each other, nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Nearness {
    /// On the same host.
    Host,
    /// In the same rack.
    Rack,
    /// In the same zone.
    Zone,
    /// In the same region.
    Region,
}

impl Nearness {
    /// As configurations spell them.
    pub const NAMES: &'static [&'static str] = &["host", "rack", "zone", "region"];
    /// Nearest first.
    pub const ALL: [Self; 4] = [Self::Host, Self::Rack, Self::Zone, Self::Region];

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// By its name in a configuration.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|n| *n == name).map(|i| Self::ALL[i])
    }
}

/// The labels that say where an endpoint stands, in the order of [`Nearness::ALL`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyKeys(pub [Arc<str>; 4]);

impl TopologyKeys {
    /// How near two endpoints are: the first level at which both have the same value, which is not empty.
    #[must_use]
    pub fn nearness(&self, a: &Endpoint, b: &Endpoint) -> Option<Nearness> {
        let same = |key: &str| {
            let value = a.meta.labels.get(key).filter(|v| !v.is_empty());
            value.is_some() && value == b.meta.labels.get(key)
        };
        self.0.iter().position(|key| same(key)).map(|i| Nearness::ALL[i])
    }

    /// Whether anything is known of where an endpoint stands.
    #[must_use]
    pub fn known(&self, endpoint: &Endpoint) -> bool {
        self.0.iter().any(|key| endpoint.meta.labels.get(key).is_some_and(|v| !v.is_empty()))
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("hostname", ParamKind::String, "Label of the host.").default("\"kubernetes.io/hostname\""),
        Param::new("rack", ParamKind::String, "Label of the rack.").default("\"topology.kubernetes.io/rack\""),
        Param::new("zone", ParamKind::String, "Label of the zone.").default("\"topology.kubernetes.io/zone\""),
        Param::new("region", ParamKind::String, "Label of the region.").default("\"topology.kubernetes.io/region\""),
    ],
    makes: &[DataKind::Topology],
    build: Some(build),
    ..Row::new(
        "topology-extractor",
        &[Kind::Extractor],
        Stability::Alpha,
        "Says by its labels where an endpoint stands: host, rack, zone, region.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let keys = ["hostname", "rack", "zone", "region"].map(|param| Arc::from(b.params.str(param)));
    Instance { topology: Some(Arc::new(TopologyKeys(keys))), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn two_endpoints_are_as_near_as_the_first_level_they_share() {
        let keys = TopologyKeys(["host", "rack", "zone", "region"].map(Arc::from));
        let bench = Bench::new([
            endpoint("a").label("host", "h1").label("rack", "r1").label("zone", "z1"),
            endpoint("b").label("host", "h1").label("rack", "r2"),
            endpoint("c").label("host", "h2").label("rack", "").label("zone", "z1"),
            endpoint("d").label("rack", ""),
        ]);
        let near = |a: usize, b: usize| keys.nearness(&bench.endpoints()[a], &bench.endpoints()[b]);
        assert_eq!(near(0, 1), Some(Nearness::Host));
        assert_eq!(near(0, 2), Some(Nearness::Zone));
        // Two empty values are not the same place.
        assert_eq!(near(2, 3), None);
        assert!(keys.known(&bench.endpoints()[0]) && !keys.known(&bench.endpoints()[3]));
    }
}
