//! What is where.

use std::net::SocketAddr;

use bytes::Bytes;
use hyper::header::{ACCEPT, ALLOW, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, StatusCode, Uri};
use pointsman_config::Fault;
use pointsman_core::percent_decoded;
use pointsman_scheduling::record::{Decision, DecisionId};
use serde::Serialize;
use serde_json::json;

use crate::endpoints::{Shown, Unfound, drain, find};
use crate::reply::{Reply, TEXT, fault, json as json_reply, with_type};
use crate::{Admin, Guard, View};

/// Decisions in one answer, unless the request says how many.
const DEFAULT_LIMIT: usize = 50;
/// Decisions in one answer at most.
const MAX_LIMIT: usize = 1_000;

/// As Go's library says it; names here need no escaping, which is what the last part means.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores";

const INDEX: &str = "\
Pointsman: admin listener

  GET  /api/decisions?limit=&after=   the newest decisions, newest first; &request_id= those of one request
  GET  /api/decisions/{id}            one of them; `last` is the newest
  GET  /api/endpoints                 the engines and what is known of them
  GET  /api/config                    the configuration in force, defaults marked, and how the last reload went
  GET  /api/stream?rate=              decisions and the fleet as they change (server-sent events)
  GET  /api/prefix                    shared prefixes as a tree, and who holds them
  POST /api/rescore                   where the last requests would have gone with other weights
  GET  /api/presets                   weights to begin with
  GET  /api/plugins                   every plugin type, its parameters, its formula
  GET  /api/phases?model=&prompt=..   when it pays to compute a prompt on another engine
  GET  /api/shadow                    how often the shadow profiles would have chosen otherwise
  POST /api/endpoints/{name}/drain    take an engine out; /undrain takes it back in
  GET  /metrics                       Prometheus text, OpenMetrics when asked for
  GET  /healthz                       200 while this process lives
  GET  /debug/pprof/profile?seconds=  where the process spends its time (pprof)
  GET  /debug/pprof/heap?seconds=     what its heap holds (pprof)

In a browser, this address is the console. On a terminal: pointsman explain last, pointsman status
";

// Written straight from these: going by way of a `Value` would sort the keys, and the order of the scorers means something.

#[derive(Serialize)]
struct Endpoints {
    endpoints: Vec<Shown>,
}

#[derive(Serialize)]
struct Changed {
    changed: bool,
    endpoint: Shown,
}

#[derive(Serialize)]
struct Decisions<'a> {
    decisions: Vec<&'a Decision>,
}

/// One request.
pub(crate) struct Ask<'a> {
    pub(crate) method: &'a Method,
    pub(crate) uri: &'a Uri,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) body: &'a [u8],
    pub(crate) peer: SocketAddr,
    pub(crate) listen: SocketAddr,
}

/// The answer of this crate; `None` when the path is not one of its own, and may be asked of an extension.
pub(crate) fn answer(view: &impl View, guard: &Guard, ask: &Ask<'_>) -> Option<Reply> {
    if let Err(denied) = admitted(guard, ask) {
        return Some(*denied);
    }
    let path = ask.uri.path();
    if let Some((name, out)) = changes(path) {
        return Some(only(ask, &[Method::POST], |ask| change(view, guard, ask, name, out)));
    }
    let read = &[Method::GET, Method::HEAD];
    Some(match path {
        "/" => only(ask, read, |_| with_type(StatusCode::OK, TEXT, INDEX)),
        "/healthz" => only(ask, read, |_| with_type(StatusCode::OK, TEXT, "ok\n")),
        "/metrics" => only(ask, read, |ask| metrics(view, ask.headers)),
        "/api/config" => only(ask, read, |_| {
            let (version, config) = view.config();
            let warnings: Vec<_> = view.warnings().iter().map(warning).collect();
            json_reply(&json!({
                "version": version, "config": config, "last_reload": view.last_reload(), "warnings": warnings,
            }))
        }),
        "/api/shadow" => only(ask, read, |_| match view.shadow() {
            Some(report) => json_reply(&report),
            None => fault(StatusCode::NOT_FOUND, "no shadow profiles are set; start with --shadow-config-file"),
        }),
        "/api/endpoints" => only(ask, read, |_| {
            let fleet = view.fleet();
            let endpoints: Vec<Shown> = fleet.endpoints.iter().map(|e| Shown::of(e, view)).collect();
            json_reply(&Endpoints { endpoints })
        }),
        "/api/presets" => only(ask, read, |_| json_reply(&crate::presets::all())),
        "/api/phases" => only(ask, read, |ask| crate::phases::answer(ask.uri.query().unwrap_or(""))),
        "/api/rescore" => only(ask, &[Method::POST], |ask| crate::rescore::answer(view, ask.body)),
        "/api/decisions" => only(ask, read, |ask| decisions(view, ask.uri.query().unwrap_or(""))),
        _ => match path.strip_prefix("/api/decisions/") {
            Some(id) => only(ask, read, |_| decision(view, id)),
            None => return None,
        },
    })
}

/// The answer of the extension that knows the path.
pub(crate) async fn extended(admin: &Admin, method: Method, uri: Uri, body: Bytes) -> Reply {
    let extensions = admin.extensions.clone();
    let ask = move || {
        let (path, query) = (uri.path(), uri.query().unwrap_or(""));
        extensions.iter().find_map(|e| e.answer(method.as_str(), path, query, &body))
    };
    match tokio::task::spawn_blocking(ask).await {
        Ok(Some((status, value))) => {
            let mut reply = json_reply(&value);
            *reply.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            reply
        }
        Ok(None) => fault(StatusCode::NOT_FOUND, "there is nothing here; GET / lists what is"),
        Err(_) => fault(StatusCode::INTERNAL_SERVER_ERROR, "the answer could not be made"),
    }
}

fn warning(fault: &Fault) -> serde_json::Value {
    json!({
        "code": fault.code.as_str(),
        "line": fault.span.line,
        "column": fault.span.column,
        "path": fault.path,
        "message": fault.message,
        "help": fault.help.as_deref().or(Some(&*fault.full_label()).filter(|label| !label.is_empty())),
    })
}

/// Whether a request may be answered at all; if not, what it is told.
pub(crate) fn admitted(guard: &Guard, ask: &Ask<'_>) -> Result<(), Box<Reply>> {
    guard.admit(ask.listen, ask.method, ask.uri.path(), ask.headers).map_err(|denied| {
        tracing::debug!(peer = %ask.peer, path = ask.uri.path(), status = denied.status.as_u16(), "admin request refused");
        let mut reply = fault(denied.status, &denied.message);
        if denied.status == StatusCode::UNAUTHORIZED {
            reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"pointsman admin\""));
        }
        Box::new(reply)
    })
}

fn only(ask: &Ask<'_>, methods: &[Method], answer: impl FnOnce(&Ask<'_>) -> Reply) -> Reply {
    if methods.contains(ask.method) { answer(ask) } else { not_allowed(methods) }
}

pub(crate) fn not_allowed(methods: &[Method]) -> Reply {
    let allowed = methods.iter().map(Method::as_str).collect::<Vec<_>>().join(", ");
    let mut reply = fault(StatusCode::METHOD_NOT_ALLOWED, &format!("only {allowed} is possible here"));
    if let Ok(value) = HeaderValue::from_str(&allowed) {
        reply.headers_mut().insert(ALLOW, value);
    }
    reply
}

/// The endpoint that a path would change, and whether it is to go out.
fn changes(path: &str) -> Option<(&str, bool)> {
    let rest = path.strip_prefix("/api/endpoints/")?;
    let (name, verb) = rest.rsplit_once('/')?;
    match verb {
        "drain" => Some((name, true)),
        "undrain" => Some((name, false)),
        _ => None,
    }
}

fn change(view: &impl View, guard: &Guard, ask: &Ask<'_>, name: &str, out: bool) -> Reply {
    let Some(name) = percent_decoded(name) else {
        return fault(StatusCode::BAD_REQUEST, "the endpoint's name is not valid percent-encoded UTF-8");
    };
    let fleet = view.fleet();
    let endpoint = match find(&fleet, &name) {
        Ok(endpoint) => endpoint,
        Err(Unfound::Nobody) => {
            let message = format!("there is no endpoint {}; GET /api/endpoints lists them", clipped(&name));
            return fault(StatusCode::NOT_FOUND, &message);
        }
        Err(Unfound::Several) => {
            let message = format!("several endpoints are named {}; say namespace/name or host:port", clipped(&name));
            return fault(StatusCode::CONFLICT, &message);
        }
    };
    let changed = drain(endpoint, out, ask.peer, guard.token.is_some(), view.clock());
    json_reply(&Changed { changed, endpoint: Shown::of(endpoint, view) })
}

fn decisions(view: &impl View, query: &str) -> Reply {
    let (mut limit, mut after, mut request) = (DEFAULT_LIMIT, None, None);
    for (key, value) in
        query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")))
    {
        match key {
            "limit" => match value.parse::<usize>() {
                Ok(n) if (1..=MAX_LIMIT).contains(&n) => limit = n,
                _ => return fault(StatusCode::BAD_REQUEST, &format!("limit is a number from 1 to {MAX_LIMIT}")),
            },
            "after" => match value.parse::<DecisionId>() {
                Ok(id) => after = Some(id),
                Err(()) => {
                    return fault(StatusCode::BAD_REQUEST, "after is the id of a decision, 13 letters and digits");
                }
            },
            "request_id" => match percent_decoded(value) {
                Some(id) => request = Some(id),
                None => return fault(StatusCode::BAD_REQUEST, "request_id is not valid percent-encoded UTF-8"),
            },
            _ => return fault(StatusCode::BAD_REQUEST, "known parameters are limit, after and request_id"),
        }
    }
    let decisions = match request {
        None => view.decisions(limit, after),
        Some(id) => {
            let all = view.decisions(usize::MAX, after).into_iter();
            all.filter(|d| *d.request_id == *id).take(limit).collect()
        }
    };
    json_reply(&Decisions { decisions: decisions.iter().map(|d| &**d).collect() })
}

fn decision(view: &impl View, id: &str) -> Reply {
    if id == "last" {
        return match view.decisions(1, None).first() {
            Some(decision) => json_reply(&**decision),
            None => fault(StatusCode::NOT_FOUND, "no decision has been made yet"),
        };
    }
    let Ok(id) = id.parse::<DecisionId>() else {
        return fault(StatusCode::BAD_REQUEST, "a decision's id has 13 letters and digits; `last` is the newest");
    };
    match view.decision(id) {
        Some(decision) => json_reply(&*decision),
        None => fault(
            StatusCode::NOT_FOUND,
            &format!("decision {id} is not on record (any more); the ring keeps the newest"),
        ),
    }
}

pub(crate) fn metrics(view: &impl View, headers: &HeaderMap) -> Reply {
    let accepts = |value: &HeaderValue| value.to_str().is_ok_and(|v| v.contains("application/openmetrics-text"));
    let openmetrics = headers.get_all(ACCEPT).iter().any(accepts);
    let content_type = if openmetrics { OPENMETRICS } else { PROMETHEUS };
    with_type(StatusCode::OK, content_type, view.metrics(openmetrics))
}

fn clipped(text: &str) -> String {
    text.chars().take(80).collect()
}
