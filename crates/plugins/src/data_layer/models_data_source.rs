//! `models-data-source`: fetch each engine's list of models.
//!
//! Without an `interval` every two seconds: a list of models changes when an adapter is loaded, and upstream's pace, which is that of the metrics, would
//! have every engine write it out twenty times a second. Source: plugin specification 12, request-lifecycle 8.2.

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
        Param::new("path", ParamKind::String, "Path of the list.").default("\"/v1/models\""),
        SKIP_VERIFY.default("true"),
        CA_CERT_PATH,
        CLIENT_CERT_PATH,
        CLIENT_KEY_PATH,
        INTERVAL.default("\"2s\""),
    ],
    build: Some(build),
    ..Row::new("models-data-source", &[Kind::DataSource], Stability::Beta, "Fetches each engine's list of models.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let source = DataSource::new(b, Page::Models, Host::Api).following_the_endpoint(b).with_certificates(b);
    Instance { source: Some(Source::Polled(Arc::new(source))), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_layer::testing::source;
    use std::time::Duration;

    #[test]
    fn lists_are_at_the_api_of_the_endpoint_and_not_asked_for_all_the_time() {
        let plain = source("models-data-source", "{}");
        assert_eq!((plain.page, plain.host, plain.path.as_str()), (Page::Models, Host::Api, "/v1/models"));
        assert_eq!((plain.tls, plain.interval), (None, Some(Duration::from_secs(2))));
    }
}
