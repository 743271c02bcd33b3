//! `metrics-data-source`: fetch each engine's metrics page. Source: plugin specification 12.1.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How pages are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsDataSource {
    /// Whether over TLS; `None`: as the endpoint itself is reached.
    pub tls: Option<bool>,
    /// Path of the page.
    pub path: String,
    /// Port, where it is not the endpoint's own.
    pub port: Option<u16>,
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
    /// Authorities to trust, PEM.
    pub ca_cert_path: Option<PathBuf>,
    /// Client certificate and key, PEM.
    pub client_cert: Option<(PathBuf, PathBuf)>,
    /// Time between two fetches of one page; `None`: the process's base interval.
    pub interval: Option<Duration>,
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("scheme", ParamKind::Enum(&["http", "https"]), "How pages are fetched.").default("\"http\""),
        Param::new("path", ParamKind::String, "Path of the metrics page.").default("\"/metrics\""),
        Param::new("port", ParamKind::PORT, "Port of the metrics page, where it is not the endpoint's own."),
        Param::new("insecureSkipVerify", ParamKind::Bool, "Accept any certificate.").default("true"),
        Param::new(
            "caCertPath",
            ParamKind::String,
            "PEM file of authorities to trust; used when certificates are verified.",
        ),
        Param::new("clientCertPath", ParamKind::String, "PEM file of a client certificate."),
        Param::new("clientKeyPath", ParamKind::String, "PEM file of its key."),
        Param::new("interval", ParamKind::Duration, "Time between two fetches of one page."),
    ],
    build: Some(build),
    ..Row::new("metrics-data-source", &[Kind::DataSource], Stability::Beta, "Fetches each engine's metrics page.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let text = |name: &str| Some(b.params.str(name)).filter(|s| !s.is_empty()).map(PathBuf::from);
    let (cert, key, ca) = (text("clientCertPath"), text("clientKeyPath"), text("caCertPath"));
    let path = b.params.str("path").to_owned();
    let interval = b.params.get("interval").map(|_| b.params.duration("interval"));
    if cert.is_some() != key.is_some() {
        b.fault("clientCertPath", "`clientCertPath` and `clientKeyPath` go together");
    }
    let source = MetricsDataSource {
        tls: b.params.given("scheme").then(|| b.params.str("scheme") == "https"),
        path: if path.starts_with('/') { path } else { format!("/{path}") },
        port: b.params.get("port").map(|_| b.params.u64("port") as u16),
        insecure_skip_verify: b.params.bool("insecureSkipVerify"),
        ca_cert_path: ca,
        client_cert: cert.zip(key),
        interval: interval.filter(|i| !i.is_zero()),
    };
    Instance { source: Some(Arc::new(source)), ..Instance::default() }
}
