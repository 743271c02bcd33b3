//! Headers that end at this hop (RFC 9110, 7.6.1), and headers that only the router may set.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use pointsman_core::headers as names;

/// Whether a header is meant for the next hop only, even when `connection` does not list it.
fn is_hop_by_hop(name: &HeaderName) -> bool {
    [
        header::CONNECTION,
        header::PROXY_AUTHENTICATE,
        header::PROXY_AUTHORIZATION,
        header::TRANSFER_ENCODING,
        header::UPGRADE,
    ]
    .contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection")
}

/// Removes the headers that `ends` picks, and those that `connection` lists. One walk over what is there, instead of a look-up for everything that could be.
fn strip(headers: &mut HeaderMap, ends: impl Fn(&HeaderName) -> bool) {
    let mut gone: Vec<HeaderName> = headers.keys().filter(|name| ends(name)).cloned().collect();
    if gone.contains(&header::CONNECTION) {
        let values = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
        gone.extend(values.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok()));
    }
    for name in gone {
        headers.remove(name);
    }
}

/// Makes a client's headers those of a request to an engine, `host`, `content-length` and `x-request-id` excepted.
pub(crate) fn for_engine(headers: &mut HeaderMap) {
    // The one value of `te` that says something about trailers, and not about this connection.
    let trailers = headers.get_all(header::TE).iter().any(|v| v.as_bytes().eq_ignore_ascii_case(b"trailers"));
    strip(headers, |name| {
        // The body is whole and has a length by now: its trailers were read and left out, and nobody waits to be told to send it.
        [header::TE, header::TRAILER, header::EXPECT].contains(name)
            || is_hop_by_hop(name)
            || names::is_control(name.as_str())
    });
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}

/// Makes an engine's headers those of a response to the client. `trailer` stays: it announces fields that do pass.
pub(crate) fn for_client(headers: &mut HeaderMap) {
    // With both, the transfer coding was what framed the body, and the length is not to be believed.
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    strip(headers, |name| {
        is_hop_by_hop(name)
            || chunked && name == header::CONTENT_LENGTH
            || [names::POINTSMAN_ENDPOINT, names::POINTSMAN_DECISION].contains(&name.as_str())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn left(headers: &HeaderMap) -> Vec<&str> {
        let mut names: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn hop_by_hop_headers_and_those_that_connection_lists_end_here() {
        let headers = map(&[
            ("connection", "close, X-Private"),
            ("connection", "x-other,, "),
            ("x-private", "1"),
            ("x-other", "2"),
            ("keep-alive", "timeout=5"),
            ("proxy-connection", "keep-alive"),
            ("proxy-authenticate", "Basic"),
            ("proxy-authorization", "Basic x"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "websocket"),
            ("x-public", "3"),
        ]);
        for side in [for_engine, for_client] {
            let mut headers = headers.clone();
            side(&mut headers);
            assert_eq!(left(&headers), ["x-public"]);
        }
    }

    #[test]
    fn an_engine_gets_no_control_header_of_a_client() {
        let mut headers = HeaderMap::new();
        for name in names::CONTROL {
            headers.append(*name, HeaderValue::from_static("10.9.9.9:1"));
            headers.append(*name, HeaderValue::from_static(""));
        }
        headers.insert("authorization", HeaderValue::from_static("Bearer k"));
        headers.insert("expect", HeaderValue::from_static("100-continue"));
        headers.insert("trailer", HeaderValue::from_static("x-sum"));
        headers.insert("te", HeaderValue::from_static("trailers"));
        for_engine(&mut headers);
        assert_eq!(left(&headers), ["authorization", "te"]);
    }

    #[test]
    fn te_is_kept_only_where_it_speaks_of_trailers() {
        let mut headers = map(&[("te", "gzip")]);
        for_engine(&mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn a_length_beside_a_transfer_coding_is_not_passed_on() {
        let mut headers = map(&[("transfer-encoding", "chunked"), ("content-length", "7"), ("trailer", "x-sum")]);
        for_client(&mut headers);
        assert_eq!(left(&headers), ["trailer"]);
        let mut headers =
            map(&[("content-length", "7"), ("x-pointsman-endpoint", "me"), ("x-pointsman-decision", "1")]);
        for_client(&mut headers);
        assert_eq!(left(&headers), ["content-length"]);
    }
}
