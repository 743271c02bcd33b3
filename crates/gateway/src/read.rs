//! Reading a request: head, then body, chunk by chunk into the router.

use std::sync::Arc;

use http::header::{CONTENT_LENGTH, EXPECT, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode, request};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use pointsman_core::headers::{self, REQUEST_ID};
use pointsman_core::{DropReason, ErrorCode, Nanos, Refusal, uuid_v4};
use pointsman_router::{Reading, RequestHead};
use tokio::time::{Duration, timeout};

use crate::answer::{self, Body};
use crate::budget::Held;
use crate::gateway::Shared;

/// Unread request bytes of a refused request that are taken and dropped, so that the client gets to read why instead of a reset, at most for this long.
const LINGER: Duration = Duration::from_secs(2);

/// Why reading stopped.
pub(crate) enum Stop {
    /// The client gets this.
    Answer(Box<Response<Body>>),
    /// The client is gone, or does not speak HTTP.
    Broken(hyper::Error),
}

/// Gives the request an id if it has none.
pub(crate) fn ensure_request_id(headers: &mut HeaderMap) {
    if headers.get(REQUEST_ID).is_none_or(HeaderValue::is_empty) {
        let id = uuid_v4(fastrand::u128(..));
        headers.insert(REQUEST_ID, HeaderValue::from_bytes(&id).expect("hexadecimal digits and hyphens"));
    }
}

/// What the router is told of the request.
pub(crate) fn head(parts: &request::Parts, received: Nanos) -> RequestHead {
    let headers: Vec<(Box<str>, Box<str>)> = parts
        .headers
        .iter()
        .filter(|(name, _)| !headers::is_forged(name.as_str()))
        .map(|(name, value)| (Box::from(name.as_str()), String::from_utf8_lossy(value.as_bytes()).into()))
        .collect();
    RequestHead {
        transport: "gateway",
        method: Arc::from(parts.method.as_str()),
        path: Arc::from(parts.uri.path()),
        headers: headers.into(),
        received,
        subset: None,
    }
}

/// Reads the body to its end. Trailers of a request end it and go no further.
pub(crate) async fn body(
    shared: &Shared,
    parts: &request::Parts,
    mut body: Incoming,
    reading: &mut Reading,
) -> Result<Held, Stop> {
    let options = &shared.options;
    let mut held = Held::new(&shared.metrics);
    if body.size_hint().lower() > options.max_body_bytes {
        return Err(refuse_large(shared, parts, body));
    }
    let mut total = 0_u64;
    while !body.is_end_stream() {
        let frame = match timeout(options.body_read_timeout, body.frame()).await {
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => return Err(Stop::Broken(error)),
            Ok(None) => break,
            Err(_) => {
                shared.metrics.refuse("body_timeout");
                let seconds = options.body_read_timeout.as_secs();
                let message = format!("no more of the request body came within {seconds} s");
                let mut response = answer::error(StatusCode::REQUEST_TIMEOUT, &message);
                close(parts, &mut response);
                return Err(Stop::Answer(Box::new(response)));
            }
        };
        let Ok(chunk) = frame.into_data() else { continue };
        total += chunk.len() as u64;
        if total > options.max_body_bytes {
            return Err(refuse_large(shared, parts, body));
        }
        let bytes = chunk.len();
        let beside = reading.take(chunk, body.is_end_stream());
        if !held.take(bytes + beside, options.buffer_budget_bytes) {
            drop(held);
            shared.metrics.refuse("buffer_budget");
            let limit = options.buffer_budget_bytes;
            let message = format!("too many request bytes are being held (limit {limit}); try again later");
            let mut response = answer::error(StatusCode::SERVICE_UNAVAILABLE, &message);
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
            answer::because(&mut response, DropReason::Saturated);
            linger(parts, body, &mut response);
            return Err(Stop::Answer(Box::new(response)));
        }
    }
    Ok(held)
}

fn refuse_large(shared: &Shared, parts: &request::Parts, body: Incoming) -> Stop {
    shared.metrics.refuse("body_too_large");
    let limit = shared.options.max_body_bytes;
    let mut response =
        answer::error(StatusCode::PAYLOAD_TOO_LARGE, &format!("the request body is larger than {limit} bytes"));
    linger(parts, body, &mut response);
    Stop::Answer(Box::new(response))
}

/// The answer to a request with more header lines than are taken.
pub(crate) fn refuse_headers(shared: &Shared, parts: &request::Parts, body: Incoming) -> Response<Body> {
    shared.metrics.refuse("too_many_headers");
    let mut response =
        answer::error(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "the request has too many header lines");
    linger(parts, body, &mut response);
    response
}

/// The answer to a request that comes after shutdown has begun.
pub(crate) fn refuse_late(shared: &Shared, parts: &request::Parts, body: Incoming) -> Response<Body> {
    shared.metrics.refuse("shutting_down");
    let refusal =
        Refusal::new(ErrorCode::ServiceUnavailable, "this gateway is shutting down").because(DropReason::ShuttingDown);
    let mut response = answer::refused(&refusal, None);
    linger(parts, body, &mut response);
    response
}

/// Lets the client finish sending for a moment, then closes.
fn linger(parts: &request::Parts, mut body: Incoming, response: &mut Response<Body>) {
    close(parts, response);
    // Reading would ask for the very bytes that the client holds back until told to go on.
    if !parts.headers.contains_key(EXPECT) {
        tokio::spawn(timeout(LINGER, async move { while let Some(Ok(_)) = body.frame().await {} }));
    }
}

fn close(parts: &request::Parts, response: &mut Response<Body>) {
    if parts.version < http::Version::HTTP_2 {
        response.headers_mut().insert(http::header::CONNECTION, HeaderValue::from_static("close"));
    }
}

/// Whether an engine is told a length even of an empty body: where the method expects one, or the client told one.
pub(crate) fn tells_length(parts: &request::Parts, length: u64) -> bool {
    length > 0
        || parts.headers.contains_key(CONTENT_LENGTH)
        || matches!(parts.method, http::Method::POST | http::Method::PUT | http::Method::PATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_an_id_gets_one_that_looks_like_a_uuid() {
        for before in [None, Some("")] {
            let mut headers = HeaderMap::new();
            if let Some(before) = before {
                headers.insert(REQUEST_ID, HeaderValue::from_static(before));
            }
            ensure_request_id(&mut headers);
            let id = headers[REQUEST_ID].to_str().unwrap();
            let lengths: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert_eq!(&id[14..15], "4", "{id}");
            assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(REQUEST_ID, HeaderValue::from_static("mine"));
        ensure_request_id(&mut headers);
        assert_eq!(headers[REQUEST_ID], "mine");
    }
}
