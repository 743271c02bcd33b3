//! `multicluster-file-discovery`: peer clusters from a file.
//!
//! The file is that of `file-discovery`, with two differences: an address may also be an IPv6 address or a host name, that of a peer cluster's gateway; and the
//! labels `metricsAddress` and `metricsPort` say where its metrics are. Source: request-lifecycle part 5.

use super::file_discovery::{PARAMS, build};
use crate::row::{Kind, Row, Stability};

/// Its row.
pub const ROW: Row = Row {
    params: PARAMS,
    example: "{path: /etc/epp/clusters.yaml, watchFile: true}",
    build: Some(|b| build(b, true)),
    ..Row::new(
        "multicluster-file-discovery",
        &[Kind::Discovery],
        Stability::Alpha,
        "Takes peer clusters from a file, by address or host name.",
    )
};

#[cfg(test)]
mod tests {
    use crate::data_layer::testing::declared;

    #[test]
    fn its_addresses_may_be_host_names() {
        let plugin = "{type: multicluster-file-discovery, parameters: {path: /c.yaml}}";
        let (compiled, faults) = declared(&[plugin], "{discovery: {pluginRef: multicluster-file-discovery}}");
        let discovery = compiled.unwrap_or_else(|| panic!("{faults:?}")).discovery.expect("it is named");
        assert!(discovery.any_host && !discovery.watch);
    }
}
