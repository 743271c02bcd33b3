//! The OTLP exporter over gRPC, as `OTEL_EXPORTER_OTLP_*` say. Headers, time-out and compression are read by the library itself.

use crate::{TelemetryError, Variables};
use opentelemetry_otlp::tonic_types::transport::{Certificate, ClientTlsConfig, Identity};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithTonicConfig};
use std::path::PathBuf;

const ENDPOINT: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const INSECURE: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_INSECURE", "OTEL_EXPORTER_OTLP_INSECURE"];
const CERTIFICATE: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
const CLIENT_CERTIFICATE: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_CERTIFICATE", "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE"];
const CLIENT_KEY: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_CLIENT_KEY", "OTEL_EXPORTER_OTLP_CLIENT_KEY"];
const PROTOCOL: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const DEFAULT: &str = "localhost:4317";

pub(crate) fn exporter(variables: Variables<'_>, warnings: &mut Vec<String>) -> Result<SpanExporter, TelemetryError> {
    if let Some((name, protocol)) = variables.first(&PROTOCOL).filter(|(_, p)| p != "grpc") {
        warnings.push(format!("{name} is {protocol:?}: spans are sent over gRPC, the only protocol there is"));
    }
    let endpoint = endpoint(variables);
    let mut exporter = SpanExporter::builder().with_tonic().with_endpoint(&endpoint);
    if endpoint.starts_with("https://") {
        let mut tls = match variables.first(&CERTIFICATE) {
            Some((variable, path)) => {
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(variable, path)?))
            }
            None => ClientTlsConfig::new().with_enabled_roots(),
        };
        if let (Some((of_certificate, certificate)), Some((of_key, key))) =
            (variables.first(&CLIENT_CERTIFICATE), variables.first(&CLIENT_KEY))
        {
            tls = tls.identity(Identity::from_pem(read(of_certificate, certificate)?, read(of_key, key)?));
        }
        exporter = exporter.with_tls_config(tls);
    }
    Ok(exporter.build()?)
}

/// Where the collector is, with its scheme. When nothing is said about it at all, plaintext on this host, where a collector beside us listens; otherwise TLS
/// unless an `http` scheme or `INSECURE` says that there is none.
fn endpoint(variables: Variables<'_>) -> String {
    let given = variables.first(&ENDPOINT).map(|(_, endpoint)| endpoint);
    let insecure = variables.first(&INSECURE).map(|(_, v)| v.eq_ignore_ascii_case("true") || v == "1");
    let untold = given.is_none() && insecure.is_none() && variables.first(&CERTIFICATE).is_none();
    let endpoint = given.unwrap_or_else(|| DEFAULT.to_owned());
    if endpoint.contains("://") {
        endpoint
    } else if untold || insecure == Some(true) {
        format!("http://{endpoint}")
    } else {
        format!("https://{endpoint}")
    }
}

fn read(variable: &'static str, path: String) -> Result<Vec<u8>, TelemetryError> {
    let path = PathBuf::from(path);
    std::fs::read(&path).map_err(|why| TelemetryError::Unreadable { variable, path, why })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plaintext_on_this_host_is_for_those_who_said_nothing() {
        for (said, want) in [
            (&[][..], "http://localhost:4317"),
            (&[("OTEL_EXPORTER_OTLP_INSECURE", "false")], "https://localhost:4317"),
            (&[("OTEL_EXPORTER_OTLP_INSECURE", "TRUE")], "http://localhost:4317"),
            (&[("OTEL_EXPORTER_OTLP_CERTIFICATE", "ca.pem")], "https://localhost:4317"),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")], "https://collector:4317"),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317")], "http://collector:4317"),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://all:1"),
                    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "traces:2"),
                    ("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true"),
                ],
                "http://traces:2",
            ),
        ] {
            let look_up = |name: &str| said.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
            assert_eq!(endpoint(Variables::of(&look_up)), want, "{said:?}");
        }
    }

    #[test]
    fn a_certificate_that_cannot_be_read_is_an_error_that_names_it() {
        let look_up = |name: &str| (name == CERTIFICATE[1]).then(|| "/nowhere/ca.pem".to_owned());
        let error = exporter(Variables::of(&look_up), &mut Vec::new()).expect_err("it is not there").to_string();
        assert!(error.contains("OTEL_EXPORTER_OTLP_CERTIFICATE") && error.contains("/nowhere/ca.pem"), "{error}");
    }
}
