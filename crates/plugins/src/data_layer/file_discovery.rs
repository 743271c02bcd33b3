//! `file-discovery`: endpoints from a file, watched or read once. Source: request-lifecycle part 5.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use std::path::PathBuf;
use std::sync::Arc;

/// Where the endpoints are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDiscovery {
    /// The file.
    pub path: PathBuf,
    /// Whether changes are followed.
    pub watch: bool,
    /// Whether IPv6 addresses and host names are addresses too, and labels may say where the metrics are.
    pub any_host: bool,
}

pub(super) const PARAMS: &[Param] = &[
    Param::new("path", ParamKind::String, "File that lists the endpoints, YAML or JSON.").required(),
    Param::new("watchFile", ParamKind::Bool, "Follow changes of the file.").default("false"),
];

/// Its row.
pub const ROW: Row = Row {
    params: PARAMS,
    example: "{path: /etc/epp/endpoints.yaml, watchFile: true}",
    build: Some(|b| build(b, false)),
    ..Row::new("file-discovery", &[Kind::Discovery], Stability::Beta, "Takes endpoints from a file.")
};

pub(super) fn build(b: &mut Build<'_>, any_host: bool) -> Instance {
    let discovery = FileDiscovery { path: b.params.str("path").into(), watch: b.params.bool("watchFile"), any_host };
    if b.params.given("path") && discovery.path.as_os_str().is_empty() {
        b.fault("path", "`path` must not be empty");
    }
    Instance { discovery: Some(Arc::new(discovery)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_layer::testing::declared;

    #[test]
    fn it_names_the_file_and_whether_to_follow_it() {
        let plugin = "{type: file-discovery, parameters: {path: /e.yaml, watchFile: true}}";
        let (compiled, faults) = declared(&[plugin], "{discovery: {pluginRef: file-discovery}}");
        let discovery = compiled.unwrap_or_else(|| panic!("{faults:?}")).discovery.expect("it is named");
        assert_eq!(*discovery, FileDiscovery { path: "/e.yaml".into(), watch: true, any_host: false });
    }

    #[test]
    fn a_path_is_needed() {
        for parameters in ["{}", "{path: ''}"] {
            let plugin = format!("{{type: file-discovery, parameters: {parameters}}}");
            let (compiled, faults) = declared(&[&plugin], "{discovery: {pluginRef: file-discovery}}");
            assert!(compiled.is_none() && faults.iter().any(|f| f.contains("path")), "{faults:?}");
        }
    }
}
