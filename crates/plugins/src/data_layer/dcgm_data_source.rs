//! `dcgm-data-source`: fetch the page of NVIDIA's DCGM exporter, which stands beside each engine or once on each node.
//!
//! With `useNodeAddress` it is asked at the node's address; an endpoint whose node is not known then has no such page. Without an `interval` once a second:
//! the exporter itself looks at the GPUs no more often. Source: plugin specification 12.3.

use super::source::{DataSource, Host, INTERVAL, Page, SCHEME, SKIP_VERIFY, Source};
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use std::sync::Arc;

/// Its row.
pub const ROW: Row = Row {
    params: &[
        SCHEME.default("\"http\""),
        Param::new("path", ParamKind::String, "Path of the metrics page.").default("\"/metrics\""),
        Param::new("port", ParamKind::PORT, "Port of the exporter.").default("9400"),
        SKIP_VERIFY.default("true"),
        Param::new("useNodeAddress", ParamKind::Bool, "Ask the exporter of the node, not one beside the engine.")
            .default("false"),
        INTERVAL.default("\"1s\""),
    ],
    build: Some(build),
    ..Row::new(
        "dcgm-data-source",
        &[Kind::DataSource],
        Stability::Alpha,
        "Fetches the GPU metrics of each engine's DCGM exporter.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let host = if b.params.bool("useNodeAddress") { Host::Node } else { Host::Api };
    let mut source = DataSource::new(b, Page::Metrics, host);
    source.port = Some(b.params.u64("port") as u16);
    Instance { source: Some(Source::Polled(Arc::new(source))), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_layer::testing::source;

    #[test]
    fn the_exporter_is_beside_the_engine_or_on_its_node() {
        let beside = source("dcgm-data-source", "{}");
        assert_eq!((beside.host, beside.port, beside.tls), (Host::Api, Some(9400), Some(false)));
        let node = source("dcgm-data-source", "{useNodeAddress: true, port: 9500, scheme: https}");
        assert_eq!((node.host, node.port, node.tls), (Host::Node, Some(9500), Some(true)));
    }
}
