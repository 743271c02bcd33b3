//! Answers that the gateway gives itself.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{Either, Full};
use pointsman_core::headers::{DROP_REASON, POINTSMAN_DECISION};
use pointsman_core::{DropReason, Refusal};

use crate::stream::Passing;

/// A body made here, or one that passes by.
pub(crate) type Body = Either<Full<Bytes>, Box<Passing>>;

/// The error type that clients of the OpenAI API expect for a status (the table is the one that the llm-d simulator answers with).
pub(crate) fn error_type(status: u16) -> &'static str {
    match status {
        400 => "BadRequestError",
        401 => "AuthenticationError",
        403 => "PermissionDeniedError",
        404 => "NotFoundError",
        422 => "UnprocessableEntityError",
        429 => "RateLimitError",
        500.. => "InternalServerError",
        _ => "APIConnectionError",
    }
}

/// An OpenAI-shaped error body.
pub(crate) fn error_body(status: u16, message: &str) -> Bytes {
    let body = serde_json::json!({
        "error": { "message": message, "type": error_type(status), "param": null, "code": status }
    });
    body.to_string().into()
}

/// A complete answer.
pub(crate) fn whole(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// An error answer.
pub(crate) fn error(status: StatusCode, message: &str) -> Response<Body> {
    whole(status, "application/json", error_body(status.as_u16(), message))
}

/// The answer to a request that the router refuses.
pub(crate) fn refused(refusal: &Refusal, decision: Option<String>) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = error(status, &refusal.message);
    if let Some(reason) = refusal.reason {
        because(&mut response, reason);
    }
    with_decision(&mut response, decision);
    response
}

/// Says in a word, for programs, why a request is not served.
pub(crate) fn because(response: &mut Response<Body>, reason: DropReason) {
    response.headers_mut().insert(DROP_REASON, HeaderValue::from_static(reason.as_str()));
}

/// Names the decision record in an answer.
pub(crate) fn with_decision(response: &mut Response<Body>, decision: Option<String>) {
    if let Some(id) = decision.and_then(|id| HeaderValue::try_from(id).ok()) {
        response.headers_mut().insert(POINTSMAN_DECISION, id);
    }
}

/// How an event stream that had begun tells its client that it broke. Clients of the OpenAI API look for a data record with `error`; those of
/// Anthropic's for an event of that name. `complete` says whether the bytes so far end with a whole event.
pub(crate) fn broken_stream_event(messages_api: bool, complete: bool, message: &str) -> Bytes {
    let gap = if complete { "" } else { "\n\n" };
    let event: Cow<'_, str> = if messages_api {
        let data = serde_json::json!({ "type": "error", "error": { "type": "api_error", "message": message } });
        format!("{gap}event: error\ndata: {data}\n\n").into()
    } else {
        let data = serde_json::json!({ "error": { "message": message, "type": "ModelServerError", "param": null, "code": 502 } });
        format!("{gap}data: {data}\n\n").into()
    };
    event.into_owned().into()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use pointsman_core::ErrorCode;

    use super::*;

    #[test]
    fn error_types_follow_the_table() {
        for (status, want) in [
            (400, "BadRequestError"),
            (401, "AuthenticationError"),
            (404, "NotFoundError"),
            (413, "APIConnectionError"),
            (429, "RateLimitError"),
            (500, "InternalServerError"),
            (503, "InternalServerError"),
        ] {
            assert_eq!(error_type(status), want, "{status}");
        }
    }

    #[test]
    fn br_33_a_refusal_has_its_status_its_reason_and_an_openai_body() {
        let all = [
            (Refusal::no_endpoints(), 503, Some("rejected-no-endpoints")),
            (Refusal::all_filtered(), 429, Some("rejected-saturated")),
            (
                Refusal::new(ErrorCode::ServiceUnavailable, "stopping").because(DropReason::ShuttingDown),
                503,
                Some("rejected-shutting-down"),
            ),
            (Refusal::new(ErrorCode::BadRequest, "say \"please\""), 400, None),
        ];
        for (refusal, status, reason) in all {
            let response = refused(&refusal, Some("d-1".into()));
            assert_eq!(response.status(), status);
            assert_eq!(response.headers().get(DROP_REASON).map(|v| v.to_str().unwrap()), reason);
            assert_eq!(response.headers()[POINTSMAN_DECISION], "d-1");
            assert_eq!(response.headers()[CONTENT_TYPE], "application/json");
            let body = futures_util::future::FutureExt::now_or_never(response.into_body().collect()).unwrap().unwrap();
            let body: serde_json::Value = serde_json::from_slice(&body.to_bytes()).unwrap();
            let want = serde_json::json!({"error": {
                "message": refusal.message, "type": error_type(status), "param": null, "code": status
            }});
            assert_eq!(body, want);
        }
    }

    #[test]
    fn a_broken_stream_says_so_in_the_words_of_its_api() {
        let openai = broken_stream_event(false, true, "engine a failed");
        let text = std::str::from_utf8(&openai).unwrap();
        let data: serde_json::Value = serde_json::from_str(text.strip_prefix("data: ").unwrap().trim_end()).unwrap();
        assert_eq!(data["error"]["code"], 502);
        assert!(text.ends_with("}\n\n"));
        let anthropic = broken_stream_event(true, false, "engine a failed");
        assert!(anthropic.starts_with(b"\n\nevent: error\ndata: {"), "{anthropic:?}");
    }
}
