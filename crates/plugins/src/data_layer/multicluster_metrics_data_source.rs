//! `multicluster-metrics-data-source`: fetch the metrics page of each peer cluster's endpoint picker.
//!
//! Over TLS and with certificates verified unless told otherwise; where the page is comes from the endpoints file (`metricsAddress`, `metricsPort`), so that
//! there is no port here. Source: plugin specification 12.1.

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
        SCHEME.default("\"https\""),
        Param::new("path", ParamKind::String, "Path of the metrics page.").default("\"/metrics\""),
        SKIP_VERIFY.default("false"),
        CA_CERT_PATH,
        CLIENT_CERT_PATH,
        CLIENT_KEY_PATH,
        INTERVAL,
    ],
    build: Some(build),
    ..Row::new(
        "multicluster-metrics-data-source",
        &[Kind::DataSource],
        Stability::Alpha,
        "Fetches the metrics page of each peer cluster's endpoint picker.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let source = DataSource::new(b, Page::Metrics, Host::Metrics).with_certificates(b);
    Instance { source: Some(Source::Polled(Arc::new(source))), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_layer::testing::{faults, source};

    #[test]
    fn peers_are_asked_over_tls_and_verified_and_have_no_port_of_their_own() {
        let plain = source("multicluster-metrics-data-source", "{}");
        assert_eq!((plain.tls, plain.insecure_skip_verify, plain.host), (Some(true), false, Host::Metrics));
        assert_eq!(source("multicluster-metrics-data-source", "{scheme: http}").tls, Some(false));
        let said = faults("multicluster-metrics-data-source", "{port: 9090}");
        assert!(said.iter().any(|f| f.contains("port")), "{said:?}");
    }
}
