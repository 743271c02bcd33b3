//! `destination-endpoint-served-verifier`: tell in a response header which endpoint the proxy says it used; for conformance tests only.
//!
//! Header `x-conformance-test-served-endpoint`: the endpoint, or `fail: missing envoy lb metadata`, or `fail: missing destination endpoint served
//! metadata`. Source: plugin specification 10.6.

use std::sync::Arc;

use crate::build::Instance;
use crate::row::{Kind, Row, Stability};
use pointsman_scheduling::{Answered, ResponseHook, Served};

/// The header.
pub const HEADER: &str = "x-conformance-test-served-endpoint";

/// Tells the endpoint that served.
#[derive(Clone, Copy, Debug, Default)]
pub struct DestinationEndpointServedVerifier;

impl ResponseHook for DestinationEndpointServedVerifier {
    fn response_head(&self, answered: &Answered<'_>, set: &mut dyn FnMut(&str, &str)) {
        let value = match answered.served {
            Served::Endpoint(endpoint) => endpoint,
            Served::NoNamespace => "fail: missing envoy lb metadata",
            Served::NoKey => "fail: missing destination endpoint served metadata",
        };
        set(HEADER, value);
    }
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(|_| Instance { response: Some(Arc::new(DestinationEndpointServedVerifier)), ..Instance::default() }),
    ..Row::new(
        "destination-endpoint-served-verifier",
        &[Kind::Hook],
        Stability::Beta,
        "Tells in a response header which endpoint the proxy says it used; for conformance tests only.",
    )
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::answered;

    #[test]
    fn it_tells_the_endpoint_or_what_is_missing() {
        for (served, told) in [
            (Served::Endpoint("10.0.0.1:8000"), "10.0.0.1:8000"),
            (Served::NoNamespace, "fail: missing envoy lb metadata"),
            (Served::NoKey, "fail: missing destination endpoint served metadata"),
        ] {
            let mut headers = Vec::new();
            answered(served, |answered| {
                DestinationEndpointServedVerifier.response_head(answered, &mut |name, value| {
                    headers.push((name.to_owned(), value.to_owned()));
                });
            });
            assert_eq!(headers, [(HEADER.to_owned(), told.to_owned())]);
        }
    }
}
