//! `metrics-data-source`: fetch each engine's metrics page. Source: plugin specification 12.1.

use super::source::{
    CA_CERT_PATH, CLIENT_CERT_PATH, CLIENT_KEY_PATH, DataSource, Host, INTERVAL, Page, SCHEME, SKIP_VERIFY, Source,
};
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use std::sync::Arc;

/// Its row.
pub const ROW: Row = Row {
    params: &[
        SCHEME.default("\"http\""),
        Param::new("path", ParamKind::String, "Path of the metrics page.").default("\"/metrics\""),
        Param::new("port", ParamKind::PORT, "Port of the metrics page, where it is not the endpoint's own."),
        SKIP_VERIFY.default("true"),
        CA_CERT_PATH,
        CLIENT_CERT_PATH,
        CLIENT_KEY_PATH,
        INTERVAL,
    ],
    build: Some(build),
    ..Row::new("metrics-data-source", &[Kind::DataSource], Stability::Beta, "Fetches each engine's metrics page.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let mut source = DataSource::new(b, Page::Metrics, Host::Metrics).following_the_endpoint(b).with_certificates(b);
    source.port = b.params.get("port").map(|_| b.params.u64("port") as u16);
    Instance { source: Some(Source::Polled(Arc::new(source))), ..Instance::default() }
}
