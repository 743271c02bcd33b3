//! `endpoint-notification-source`: endpoints that join and leave.
//!
//! Every plugin that keeps state of endpoints hears of those that leave in any case, so that binding one to this source changes nothing; it is
//! accepted because upstream needs it. What can be bound are plugins that keep state of endpoints: readers of pages cannot. Source: plugin specification
//! 12, request-lifecycle 8.2.

use super::source::Source;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new(
        "endpoint-notification-source",
        &[Kind::DataSource],
        Stability::Beta,
        "Tells plugins of endpoints that join and leave, which they hear of without it too.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { source: Some(Source::EndpointEvents), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use crate::data_layer::testing::declared;

    #[test]
    fn it_is_accepted_and_nothing_is_fetched_for_it() {
        let listed = "{injectDefaults: false, sources: [{pluginRef: endpoint-notification-source, extractors: [{pluginRef: inflight-load-producer}]}]}";
        let plugins = ["{type: endpoint-notification-source}", "{type: inflight-load-producer}"];
        let (compiled, faults) = declared(&plugins, listed);
        assert!(faults.is_empty(), "{faults:?}");
        assert!(compiled.expect("a good document").sources.is_empty());
    }
}
