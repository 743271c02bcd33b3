//! Data sources: a page that every endpoint has, where it is and how it is fetched.
//!
//! The types differ in their defaults and in what is on the page. Their I/O is in `sources`.

use crate::build::Build;
use pointsman_config::{Param, ParamKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What is on a page. An extractor reads one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page {
    /// Prometheus text.
    Metrics,
    /// A list of models, JSON.
    Models,
}

impl Page {
    /// In words, with the article.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Metrics => "a metrics page",
            Self::Models => "a list of models",
        }
    }
}

/// Which address of an endpoint a page is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// That of its metrics.
    Metrics,
    /// That of its API.
    Api,
    /// That of the machine it runs on.
    Node,
}

/// How pages are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataSource {
    /// Configuration type, for counters and logs.
    pub type_name: &'static str,
    /// What is on them.
    pub page: Page,
    /// Which address they are at.
    pub host: Host,
    /// Port, where it is not that of the address.
    pub port: Option<u16>,
    /// Whether over TLS; `None`: as the endpoint itself is reached.
    pub tls: Option<bool>,
    /// Path of the page, beginning with `/`.
    pub path: String,
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
    /// Authorities to trust, PEM.
    pub ca_cert_path: Option<PathBuf>,
    /// Client certificate and key, PEM.
    pub client_cert: Option<(PathBuf, PathBuf)>,
    /// Time between two fetches of one page; `None`: the process's base interval.
    pub interval: Option<Duration>,
}

impl DataSource {
    /// What every source has: `scheme`, `path`, `insecureSkipVerify` and `interval`.
    pub(crate) fn new(b: &Build<'_>, page: Page, host: Host) -> Self {
        let path = b.params.str("path");
        let interval = b.params.get("interval").map(|_| b.params.duration("interval"));
        Self {
            type_name: b.type_name,
            page,
            host,
            port: None,
            tls: Some(b.params.str("scheme") == "https"),
            path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
            insecure_skip_verify: b.params.bool("insecureSkipVerify"),
            ca_cert_path: None,
            client_cert: None,
            interval: interval.filter(|i| !i.is_zero()),
        }
    }

    /// A scheme that nobody wrote is that of the endpoint.
    pub(crate) fn following_the_endpoint(mut self, b: &Build<'_>) -> Self {
        self.tls = self.tls.filter(|_| b.params.given("scheme"));
        self
    }

    /// With `caCertPath`, `clientCertPath` and `clientKeyPath`.
    pub(crate) fn with_certificates(mut self, b: &mut Build<'_>) -> Self {
        let text = |name: &str| Some(b.params.str(name)).filter(|s| !s.is_empty()).map(PathBuf::from);
        let (cert, key) = (text("clientCertPath"), text("clientKeyPath"));
        self.ca_cert_path = text("caCertPath");
        if cert.is_some() != key.is_some() {
            b.fault("clientCertPath", "`clientCertPath` and `clientKeyPath` go together");
        }
        self.client_cert = cert.zip(key);
        self
    }
}

/// Where an instance's data comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A page that is fetched again and again.
    Polled(Arc<DataSource>),
    /// Endpoints that join and leave.
    EndpointEvents,
}

pub(super) const CA_CERT_PATH: Param = Param::new(
    "caCertPath",
    ParamKind::String,
    "PEM file of authorities to trust; used when certificates are verified.",
);
pub(super) const CLIENT_CERT_PATH: Param =
    Param::new("clientCertPath", ParamKind::String, "PEM file of a client certificate.");
pub(super) const CLIENT_KEY_PATH: Param = Param::new("clientKeyPath", ParamKind::String, "PEM file of its key.");
pub(super) const SCHEME: Param = Param::new("scheme", ParamKind::Enum(&["http", "https"]), "How pages are fetched.");
pub(super) const SKIP_VERIFY: Param = Param::new("insecureSkipVerify", ParamKind::Bool, "Accept any certificate.");
pub(super) const INTERVAL: Param = Param::new("interval", ParamKind::Duration, "Time between two fetches of one page.");
