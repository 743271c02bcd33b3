//! A number about an endpoint, by the name that configurations give it.
//!
//! `KVCacheUsagePercent`, `WaitingQueueSize` and `RunningRequestsSize` are the engine's own gauges, whoever read them. Every other name is an attribute that
//! the instance named in `producer` publishes; that none does is warned of. A number that was never read, or is stale, is unknown. Source: plugin specification 3.3, and 5.4 with its
//! `Wart:` on the built-in names.

use crate::build::Build;
use pointsman_config::{Param, ParamKind};
use pointsman_fleet::attribute_key;
use pointsman_scheduling::Candidate;
use std::sync::Arc;

/// The parameter that names whoever publishes an attribute.
pub(crate) const PRODUCER: Param = Param::new(
    "producer",
    ParamKind::String,
    "Instance that publishes the attribute; empty for one that belongs to no instance.",
)
.default("\"core-metrics-extractor\"");

/// A number about an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EndpointAttribute {
    name: Arc<str>,
    source: Source,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Source {
    KvUsage,
    Waiting,
    Running,
    /// By its [`attribute_key`].
    Published(Arc<str>),
}

impl EndpointAttribute {
    /// `name` as `producer` publishes it.
    pub(crate) fn new(name: &str, producer: &str) -> Self {
        let source = match name {
            "KVCacheUsagePercent" => Source::KvUsage,
            "WaitingQueueSize" => Source::Waiting,
            "RunningRequestsSize" => Source::Running,
            _ => Source::Published(attribute_key(name, producer)),
        };
        Self { name: name.into(), source }
    }

    /// The one that the parameter `param` names, with [`PRODUCER`].
    pub(crate) fn named(b: &mut Build<'_>, param: &str) -> Self {
        let params = b.params;
        let (name, producer) = (params.str(param), params.str("producer"));
        let attribute = Self::new(name, producer);
        if name.is_empty() {
            b.fault(param, &format!("`{param}` must not be empty"));
        } else if name.contains('/') && !params.given("producer") {
            b.fault(
                param,
                &format!(
                    "`{name}` holds a `/`: write the name alone, and whoever publishes it in `producer` (`\"\"` when it belongs to no instance)"
                ),
            );
        } else if !attribute.is_read(b) && attribute.is_gauge() {
            b.fault(
                param,
                &format!(
                    "`{name}` is a gauge of the engine, and no data source has `core-metrics-extractor` to read it"
                ),
            );
        } else if !attribute.is_read(b) {
            let whose = if producer.is_empty() { String::new() } else { format!(" for `{producer}`") };
            b.warning(param, &format!("no extractor reads `{name}`{whose}, so it is unknown of every endpoint"));
        }
        attribute
    }

    /// The one that an extractor of that type reads for no instance in particular.
    pub(crate) fn of_extractor(b: &mut Build<'_>, name: &str, extractor: &str) -> Self {
        let attribute = Self::new(name, "");
        if !attribute.is_read(b) {
            let message =
                format!("nothing reads `{name}`, so it is unknown of every endpoint: declare a `{extractor}`");
            b.warning_of_all(&message);
        }
        attribute
    }

    fn is_read(&self, b: &Build<'_>) -> bool {
        match &self.source {
            Source::Published(key) => b.attribute_is_read(key),
            Source::KvUsage | Source::Waiting | Source::Running => b.gauges_are_read(),
        }
    }

    fn is_gauge(&self) -> bool {
        !matches!(self.source, Source::Published(_))
    }

    /// What it is called.
    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its value; `None` when unknown or stale.
    pub(crate) fn read(&self, candidate: &Candidate<'_>) -> Option<f64> {
        match &self.source {
            Source::KvUsage => candidate.kv_usage(),
            Source::Waiting => candidate.waiting(),
            Source::Running => candidate.running(),
            Source::Published(key) => candidate.attribute(key),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn read(name: &str, producer: &str) -> Vec<Option<f64>> {
        let attribute = EndpointAttribute::new(name, producer);
        let bench = Bench::new([
            endpoint("a").kv(0.25).waiting(3.0).running(7.0).attribute("load", "core-metrics-extractor", 5.0),
            endpoint("b").attribute("load", "", 6.0),
        ]);
        bench.with(|_, scope| scope.iter().map(|(_, c)| attribute.read(c)).collect())
    }

    #[test]
    fn the_built_in_names_are_the_engines_gauges() {
        assert_eq!(read("KVCacheUsagePercent", "core-metrics-extractor"), [Some(0.25), None]);
        assert_eq!(read("WaitingQueueSize", "core-metrics-extractor"), [Some(3.0), None]);
        assert_eq!(read("RunningRequestsSize", ""), [Some(7.0), None]);
    }

    #[test]
    fn other_names_are_looked_up_under_whoever_publishes_them() {
        assert_eq!(read("load", "core-metrics-extractor"), [Some(5.0), None]);
        assert_eq!(read("load", ""), [None, Some(6.0)]);
        assert_eq!(read("none", "core-metrics-extractor"), [None, None]);
    }
}
