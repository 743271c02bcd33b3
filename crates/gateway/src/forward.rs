//! Sending a request to the chosen engine, and to the next one when that fails before its response begins.

use std::error::Error;
use std::future::{Future, poll_fn};
use std::ops::{Deref, DerefMut};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::PathAndQuery;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::Either;
use hyper::body::Incoming;
use pointsman_core::headers::{POINTSMAN_DECISION, POINTSMAN_ENDPOINT};
use pointsman_fleet::Endpoint;
use pointsman_router::{Routed, TraceHeaders};
use pointsman_scheduling::{Served, Termination};
use pointsman_wire::body::Api;

use crate::answer::{self, Body};
use crate::budget::Held;
use crate::ejection::FailureKind;
use crate::gateway::Shared;
use crate::hop;
use crate::stream::{Format, Passing};
use crate::upstream::{Kept, Link, Sender};

/// The part of a request that is the same for every engine it may go to.
#[derive(Debug)]
pub(crate) struct Outgoing {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    tells_length: bool,
}

/// Why an engine gave no response.
#[derive(Debug)]
pub(crate) enum Failure {
    /// It could not be connected to.
    Connect(String),
    /// It closed or reset the connection before its response began.
    Closed(String),
    /// Its response did not begin in time.
    Slow(String),
    /// What it sent is not HTTP.
    Malformed(String),
}

impl Failure {
    fn text(&self) -> &str {
        match self {
            Self::Connect(text) | Self::Closed(text) | Self::Slow(text) | Self::Malformed(text) => text,
        }
    }

    fn kind(&self) -> FailureKind {
        if matches!(self, Self::Connect(_)) { FailureKind::Connect } else { FailureKind::Answer }
    }

    /// Whether another engine may be asked. A slow one may still be working on it, and what is malformed is an answer.
    fn retriable(&self) -> bool {
        matches!(self, Self::Connect(_) | Self::Closed(_))
    }

    fn status(&self) -> StatusCode {
        if matches!(self, Self::Slow(_)) { StatusCode::GATEWAY_TIMEOUT } else { StatusCode::BAD_GATEWAY }
    }
}

/// The innermost cause of an error, which is where the operating system speaks.
pub(crate) fn root_cause(error: &(dyn Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

impl Outgoing {
    /// From a client's head, whose headers become those for an engine.
    pub(crate) fn new(parts: http::request::Parts, tells_length: bool) -> Self {
        let mut headers = parts.headers;
        hop::for_engine(&mut headers);
        // A length of the client's is replaced for each attempt, with a host.
        let path = parts.uri.into_parts().path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        Self { method: parts.method, uri: Uri::from(path), headers, tells_length }
    }

    /// The engine continues our trace, not the client's.
    pub(crate) fn carry(&mut self, trace: TraceHeaders<'_>) {
        for name in pointsman_trace::HEADERS {
            self.headers.remove(name);
        }
        let value = |v: &str| HeaderValue::from_str(v).ok();
        let headers = trace.iter().filter_map(|(name, v)| Some((HeaderName::from_static(name), value(v)?)));
        self.headers.extend(headers);
    }

    /// The request for a model list, on behalf of a client.
    pub(crate) fn models(client: &HeaderMap) -> Self {
        let mut headers = client.clone();
        hop::for_engine(&mut headers);
        // The lists are merged: no conditional answers, no coded ones, and no body was asked for.
        for name in ["content-length", "accept-encoding", "if-none-match", "if-modified-since", "range"] {
            headers.remove(name);
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        Self { method: Method::GET, uri: Uri::from_static("/v1/models"), headers, tells_length: false }
    }

    /// Headers that plugins put on the request, over whatever the client sent under these names.
    fn added(added: &[(&'static str, String)]) -> Vec<(HeaderName, HeaderValue)> {
        let value = |v: &str| HeaderValue::from_str(v).ok();
        added.iter().filter_map(|(name, v)| Some((HeaderName::from_static(name), value(v)?))).collect()
    }

    fn request(&self, link: &Link, added: &[(HeaderName, HeaderValue)], body: Kept) -> Request<Kept> {
        let length = http_body::Body::size_hint(&body).lower();
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.uri.clone();
        let headers = request.headers_mut();
        headers.clone_from(&self.headers);
        headers.insert(HOST, link.authority.clone());
        headers.extend(added.iter().cloned());
        if self.tells_length {
            headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
        }
        request
    }
}

/// A routed request without a response yet. When it is dropped, either its client left or the process stops, and the router should know which.
struct Waiting<'a> {
    /// Present until answered.
    routed: Option<Box<Routed>>,
    shared: &'a Shared,
}

impl Waiting<'_> {
    fn answered(mut self) -> Box<Routed> {
        self.routed.take().expect("taken only here")
    }
}

impl Deref for Waiting<'_> {
    type Target = Routed;

    fn deref(&self) -> &Routed {
        self.routed.as_deref().expect("taken only at the end")
    }
}

impl DerefMut for Waiting<'_> {
    fn deref_mut(&mut self) -> &mut Routed {
        self.routed.as_deref_mut().expect("taken only at the end")
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some(routed) = self.routed.take_if(|_| self.shared.cut()) {
            routed.finish(Termination::Shutdown, Some("the gateway stopped before the response had begun".into()));
        }
    }
}

impl Shared {
    /// One attempt at one endpoint. A connection that was idle may have been closed by the engine as the request went out: that says nothing about
    /// the engine, so such a request goes out once more, on a fresh connection.
    pub(crate) async fn send(
        &self,
        endpoint: &Endpoint,
        link: &Link,
        outgoing: &Outgoing,
        added: &[(HeaderName, HeaderValue)],
        body: &[bytes::Bytes],
    ) -> Result<(Response<Incoming>, Sender), Failure> {
        let mut used = link.take();
        loop {
            let reused = used.is_some();
            let mut sender = match used.take() {
                Some(sender) => sender,
                // Boxed: it is large and rare, and would make every request's future large.
                None => Box::pin(self.connector.connect(&endpoint.meta, link.port))
                    .await
                    .map_err(|e| Failure::Connect(root_cause(&e)))?,
            };
            let limit = self.options.response_header_timeout;
            let request = outgoing.request(link, added, Kept::new(body));
            match tokio::time::timeout(limit, sender.send_request(request)).await {
                Ok(Ok(response)) => return Ok((response, sender)),
                Err(_) => return Err(Failure::Slow(format!("no response within {} s", limit.as_secs()))),
                Ok(Err(error)) if error.is_parse() || error.is_user() => {
                    return Err(Failure::Malformed(root_cause(&error)));
                }
                Ok(Err(_)) if reused => {}
                Ok(Err(error)) => return Err(Failure::Closed(root_cause(&error))),
            }
        }
    }

    /// Sends a routed request until an endpoint answers or nobody is left.
    pub(crate) async fn forward(
        self: &Arc<Self>,
        routed: Box<Routed>,
        outgoing: Outgoing,
        held: Held,
    ) -> Response<Body> {
        let mut routed = Waiting { routed: Some(routed), shared: self };
        let messages = routed.api() == Api::Messages;
        let mut retries = 0;
        loop {
            let endpoint = Arc::clone(routed.endpoint());
            let link = self.links.of(&endpoint, routed.port());
            let attempt = self.ejector.attempt(&endpoint, &link.record);
            let body = Arc::clone(routed.body());
            let added = Outgoing::added(routed.added_headers());
            let answered = {
                let mut sending = pin!(self.send(&endpoint, &link, &outgoing, &added, &body));
                // What the decision did not wait for is done once the request is under way.
                let begun = poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await;
                routed.dispatched();
                match begun {
                    Poll::Ready(answered) => answered,
                    Poll::Pending => sending.await,
                }
            };
            drop(body);
            let failure = match answered {
                Ok((response, sender)) => {
                    attempt.answered(response.status().as_u16());
                    let response = self.pass(response, sender, link, routed.answered(), messages);
                    // A long response does not hold its request, nor the budget for it.
                    drop(held);
                    return response;
                }
                Err(failure) => failure,
            };
            attempt.failed(failure.kind(), failure.text());
            if failure.retriable() && retries < self.options.retries && routed.retry(failure.text()) {
                retries += 1;
                continue;
            }
            return self.give_up(routed.answered(), &endpoint, &failure);
        }
    }

    fn give_up(&self, routed: Box<Routed>, endpoint: &Endpoint, failure: &Failure) -> Response<Body> {
        let status = failure.status();
        let message = format!("engine {} failed before its response began: {}", endpoint.name().name, failure.text());
        let mut response = answer::error(status, &message);
        if self.options.decision_headers {
            answer::with_decision(&mut response, Some(routed.decision().id.to_string()));
        }
        // Not told as a response's head: no engine gave one, and the metrics tell the two apart.
        routed.decision().outcome.lock().status = Some(status.as_u16());
        routed.finish(Termination::Error, Some(message));
        response
    }

    fn pass(
        self: &Arc<Self>,
        response: Response<Incoming>,
        sender: Sender,
        link: Arc<Link>,
        mut routed: Box<Routed>,
        messages: bool,
    ) -> Response<Body> {
        let (mut parts, body) = response.into_parts();
        let text = |name| parts.headers.get(name).and_then(|v: &HeaderValue| v.to_str().ok());
        let (kind, coding) = (text(CONTENT_TYPE), text(CONTENT_ENCODING));
        routed.response_head(parts.status.as_u16(), kind, coding);
        let events = kind.is_some_and(|kind| {
            kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("text/event-stream"))
        });
        // A record of ours would be noise inside a coded stream, and has no room in one of known length.
        let plain = coding.is_none_or(|c| c.eq_ignore_ascii_case("identity"));
        hop::for_client(&mut parts.headers);
        routed.response_headers(Served::Endpoint(routed.endpoint().meta.host_port()), &mut |name, value| {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                parts.headers.insert(name, value);
            }
        });
        if routed.rewrites_response() {
            parts.headers.remove(CONTENT_LENGTH);
        }
        let format = match (events && plain && !parts.headers.contains_key(CONTENT_LENGTH), messages) {
            (false, _) => Format::Opaque,
            (true, false) => Format::Events,
            (true, true) => Format::MessagesEvents,
        };
        if self.options.decision_headers {
            parts.headers.insert(POINTSMAN_ENDPOINT, link.name.clone());
            if let Ok(id) = HeaderValue::try_from(routed.decision().id.to_string()) {
                parts.headers.insert(POINTSMAN_DECISION, id);
            }
        }
        parts.version = http::Version::HTTP_11;
        parts.extensions.clear();
        let passing = Passing::new(body, format, routed, (link, sender), Arc::clone(self));
        Response::from_parts(parts, Either::Right(Box::new(passing)))
    }
}
