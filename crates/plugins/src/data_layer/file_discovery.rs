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
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("path", ParamKind::String, "File that lists the endpoints, YAML or JSON.").required(),
        Param::new("watchFile", ParamKind::Bool, "Follow changes of the file.").default("false"),
    ],
    example: "{path: /etc/epp/endpoints.yaml, watchFile: true}",
    build: Some(build),
    ..Row::new("file-discovery", &[Kind::Discovery], Stability::Beta, "Takes endpoints from a file.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let discovery = FileDiscovery { path: b.params.str("path").into(), watch: b.params.bool("watchFile") };
    if b.params.given("path") && discovery.path.as_os_str().is_empty() {
        b.fault("path", "`path` must not be empty");
    }
    Instance { discovery: Some(Arc::new(discovery)), ..Instance::default() }
}
