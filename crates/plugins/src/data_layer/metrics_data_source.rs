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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_layer::testing::{faults, source};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn left_alone_it_is_the_endpoints_own_page_at_the_pace_of_the_process() {
        let plain = source("metrics-data-source", "{}");
        assert_eq!((plain.page, plain.host, plain.path.as_str()), (Page::Metrics, Host::Metrics, "/metrics"));
        assert_eq!((plain.tls, plain.port, plain.interval, plain.insecure_skip_verify), (None, None, None, true));
    }

    #[test]
    fn what_is_written_counts() {
        let parameters = "{scheme: https, path: stats, port: 9100, insecureSkipVerify: false, caCertPath: /ca.pem, \
            clientCertPath: /c.pem, clientKeyPath: /k.pem, interval: 250ms}";
        let written = source("metrics-data-source", parameters);
        assert_eq!((written.tls, written.path.as_str(), written.port), (Some(true), "/stats", Some(9100)));
        assert_eq!(written.interval, Some(Duration::from_millis(250)));
        assert_eq!(written.ca_cert_path.as_deref(), Some(Path::new("/ca.pem")));
        assert_eq!(written.client_cert, Some(("/c.pem".into(), "/k.pem".into())));
        assert_eq!(source("metrics-data-source", "{scheme: http, interval: 0s}").tls, Some(false));
    }

    #[test]
    fn half_a_client_certificate_and_a_port_that_is_none_are_refused() {
        for (parameters, want) in [
            ("{clientCertPath: /c.pem}", "`clientCertPath` and `clientKeyPath` go together"),
            ("{port: 0}", "port"),
            ("{port: 65536}", "port"),
        ] {
            let said = faults("metrics-data-source", parameters);
            assert!(said.iter().any(|f| f.contains(want)), "{parameters}: {said:?}");
        }
    }
}
