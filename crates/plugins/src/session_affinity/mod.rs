//! What keeps a session on one endpoint: shared by `session-affinity-filter` and `session-affinity-scorer`.
//!
//! With the strategy `encoded_endpoint_header` the client carries the binding: a response names the endpoint that served it in a header, and a request that
//! brings the same header back goes there again. With `session_id` it is kept here: the first of `sources` that a request has identifies its session, and
//! the session is bound to the endpoint that its first request was sent to. Another choice rebinds it only when the bound endpoint was not among the
//! candidates. Source: plugin specification 5.6 and its `Wart:` lines: bindings are bounded in number and end on time without a sweep, and tokens can be
//! sealed with a key.

mod store;
mod token;

use crate::build::{Build, Instance};
use crate::header_names::{Use, header_name};
use crate::learned::{DUMPED, Learned};
use pointsman_config::{Param, ParamKind, Params};
use pointsman_core::{EndpointName, xxh64};
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_scheduling::{
    AddedHeaders, Answered, Chosen, Cycle, DataKind, Facts, Held, Hooks, Request, ResponseHook, Scope, StagePick,
    TextId,
};
use std::sync::Arc;
use std::time::Duration;
use store::{Limits, SHARDS, Session, Sessions};
use token::{Key, Tags};

/// What an instance has learned.
#[derive(Debug, Default)]
struct State {
    sessions: Sessions,
    tags: Tags,
}

impl Learned for State {
    fn endpoint_left(&self, endpoint: &Endpoint) {
        self.tags.forget(endpoint);
    }

    fn dump(&self, _: &Snapshot) -> Option<serde_json::Value> {
        let all = self.sessions.by_endpoint();
        let total: usize = all.values().sum();
        let shown: Vec<serde_json::Value> = all
            .iter()
            .take(DUMPED)
            .map(|(endpoint, sessions)| serde_json::json!({"endpoint": endpoint, "sessions": sessions}))
            .collect();
        Some(serde_json::json!({
            "endpoints": shown, "totalEndpoints": all.len(), "maxEndpoints": DUMPED, "totalSessions": total,
        }))
    }
}

/// Where a session's identifier comes from.
#[derive(Debug)]
enum Source {
    /// A header, in lower case.
    Header(String),
    /// What a plugin says of the request.
    Text(TextId),
}

/// Where the binding is kept.
#[derive(Debug)]
enum Strategy {
    /// With the client, in this header (in lower case).
    Header { name: String, key: Option<Key> },
    /// Here.
    SessionId { sources: Vec<Source>, limits: Limits },
}

/// Finds and keeps the endpoint of a session.
#[derive(Debug)]
pub(crate) struct SessionAffinity {
    strategy: Strategy,
    /// The profile whose choice counts; `None`: the primary one.
    profile: Option<String>,
    state: Arc<State>,
}

impl SessionAffinity {
    /// Position in `scope.kept` of the endpoint that the request's session is bound to.
    pub(crate) fn bound(&self, cycle: &Cycle<'_>, scope: Scope<'_>) -> Option<usize> {
        let place = |fits: &dyn Fn(&Endpoint) -> bool| scope.iter().position(|(_, c)| fits(c.endpoint));
        match &self.strategy {
            Strategy::Header { name, key } => {
                let content = token::decode(cycle.request.header(name)?)?;
                match key {
                    Some(key) => place(&|e| self.state.tags.is_of(key, &content, e)),
                    None => place(&|e| token::is_name(&content, e.name())),
                }
            }
            Strategy::SessionId { sources, limits } => {
                let session = self.session(sources, cycle.request, cycle.facts)?;
                let sessions = &self.state.sessions;
                let place = |bound: &EndpointName| place(&|e| e.name() == bound);
                if cycle.shadow {
                    return sessions.look(session, cycle.now, limits.ttl, place);
                }
                sessions.find(session, request_number(cycle.request), cycle.now, limits.ttl, place)
            }
        }
    }

    fn session(&self, sources: &[Source], request: &Request, facts: &Facts) -> Option<Session> {
        let text = |source: &Source| match source {
            Source::Header(name) => request.header(name),
            Source::Text(id) => facts.text(*id).map(|text| &**text),
        };
        let told = |source| text(source).map(str::trim).filter(|t| !t.is_empty());
        sources.iter().find_map(told).map(|identifier| self.state.sessions.session(identifier))
    }

    /// The endpoint that counts, of those that the profile `named` and the others chose.
    fn target<'a>(
        &self,
        (named, primary): (&str, &'a Arc<Endpoint>),
        others: &'a [StagePick],
    ) -> Option<&'a Arc<Endpoint>> {
        match self.profile.as_deref() {
            None => Some(primary),
            Some(profile) if profile == named => Some(primary),
            Some(profile) => others.iter().find(|s| *s.profile == *profile).and_then(|s| s.endpoints.first()),
        }
    }
}

/// Tells requests apart, as far as a session needs it.
fn request_number(request: &Request) -> u64 {
    xxh64(request.id.as_bytes())
}

impl Hooks for SessionAffinity {
    fn chosen(&self, chosen: &Chosen<'_>, _: &mut AddedHeaders) -> Option<Box<dyn Held>> {
        let Strategy::SessionId { sources, limits } = &self.strategy else { return None };
        let session = self.session(sources, chosen.request, chosen.facts)?;
        let endpoint = self.target((chosen.profile, chosen.endpoint), chosen.others)?;
        let request = request_number(chosen.request);
        let anew = self.state.sessions.chosen(session, request, chosen.request.received, endpoint.name(), *limits);
        anew.then(|| -> Box<dyn Held> {
            Box::new(Bound { state: Arc::clone(&self.state), session, endpoint: Arc::clone(endpoint) })
        })
    }
}

/// A session that this request bound.
struct Bound {
    state: Arc<State>,
    session: Session,
    endpoint: Arc<Endpoint>,
}

impl Held for Bound {
    fn withdrawn(self: Box<Self>) {
        self.state.sessions.unbind(self.session, self.endpoint.name());
    }
}

impl ResponseHook for SessionAffinity {
    fn response_head(&self, answered: &Answered<'_>, set: &mut dyn FnMut(&str, &str)) {
        let Strategy::Header { name, key } = &self.strategy else { return };
        let primary = (&**answered.profile, answered.endpoint);
        let Some(endpoint) = self.target(primary, answered.others) else { return };
        let token = match key {
            Some(key) => self.state.tags.token(key, endpoint),
            None => token::plain(endpoint.name()),
        };
        set(name, &token);
    }
}

const ENCODED: &[Param] = &[
    Param::new("header", ParamKind::String, "Header that carries the token, of requests and responses.")
        .default("\"x-session-token\""),
    Param::new(
        "sealingKey",
        ParamKind::String,
        "Key of 16 bytes or more that tokens are sealed with, the same in every replica: a sealed token tells no name, and cannot be forged.",
    )
    .secret(),
];

const SOURCE: ParamKind = ParamKind::Object(&[
    Param::new("header", ParamKind::String, "Header that holds the session's identifier."),
    Param::new("attribute", ParamKind::String, "What a plugin says: `agent-identity` or `SessionIDDataKey`."),
    Param::new("producer", ParamKind::String, "Instance that says it; left out: whichever does."),
]);

const SESSION_ID: &[Param] = &[
    Param::new("sources", ParamKind::List(&SOURCE), "Where the identifier comes from; the first that is there counts.")
        .default("[{\"header\":\"x-session-id\"}]"),
    Param::new("evictionTtlSeconds", SECONDS, "Seconds without a request after which a session is forgotten.")
        .default("300"),
    Param::new("evictionSweepSeconds", SECONDS, "Accepted, and without effect: sessions end on time without a sweep.")
        .default("10"),
    Param::new(
        "maxSessions",
        ParamKind::Integer { min: Some(SHARDS as i64), max: Some(10_000_000) },
        "Sessions kept at most; the one that was used least recently goes first.",
    )
    .default("100000"),
];

const SECONDS: ParamKind = ParamKind::Integer { min: Some(1), max: Some(31_536_000) };

/// Parameters of both plugins.
pub(crate) const PARAMS: &[Param] = &[
    Param::new(
        "strategy",
        ParamKind::Enum(&["encoded_endpoint_header", "session_id"]),
        "Who keeps the binding: the client, in a header, or this router, by an identifier.",
    )
    .default("\"encoded_endpoint_header\""),
    Param::new("encodedEndpointHeaderConfig", ParamKind::Object(ENCODED), "Of `encoded_endpoint_header`.")
        .default("{}"),
    Param::new("sessionIdConfig", ParamKind::Object(SESSION_ID), "Of `session_id`.").default("{}"),
    Param::new("profileName", ParamKind::String, "Profile whose choice counts; empty: the primary one.")
        .default("\"\""),
];

/// What a request can be said to be of, as a document names it, and the plugin type that says so.
pub(crate) const TEXTS: [(&str, DataKind, &str); 2] = [
    ("agent-identity", DataKind::AgentIdentity, "agent-identity"),
    ("SessionIDDataKey", DataKind::SessionId, "session-id-producer"),
];

/// From the parameters.
pub(crate) fn build(b: &mut Build<'_>) -> Arc<SessionAffinity> {
    let params = b.params;
    let state: Arc<State> = b.learned(State::default);
    let config = |name, rows| params.object(name).cloned().unwrap_or_else(|| Params::defaults(rows));
    let by_id = params.str("strategy") == "session_id";
    let (idle, other) = if by_id {
        ("encodedEndpointHeaderConfig", "encoded_endpoint_header")
    } else {
        ("sessionIdConfig", "session_id")
    };
    if params.given(idle) {
        b.warning(idle, &format!("`{idle}` has an effect only with `strategy: {other}`"));
    }
    let strategy = if by_id {
        session_id(b, &config("sessionIdConfig", SESSION_ID))
    } else {
        encoded(b, &config("encodedEndpointHeaderConfig", ENCODED))
    };
    let profile = Some(params.str("profileName")).filter(|p| !p.is_empty());
    if let Some(profile) = profile.filter(|p| b.profile(p).is_none()) {
        b.warning("profileName", &format!("there is no profile `{profile}`, so no session is ever bound"));
    }
    Arc::new(SessionAffinity { strategy, profile: profile.map(str::to_owned), state })
}

/// The extension points it takes beside the caller's own.
pub(crate) fn instance(affinity: Arc<SessionAffinity>) -> Instance {
    match affinity.strategy {
        Strategy::Header { .. } => Instance { response: Some(affinity), ..Instance::default() },
        Strategy::SessionId { .. } => Instance { hooks: Some(affinity), ..Instance::default() },
    }
}

fn encoded(b: &mut Build<'_>, config: &Params) -> Strategy {
    let name = header_name(b, config, "header", Use::Set);
    let key = Some(config.str("sealingKey")).filter(|_| config.given("sealingKey"));
    if key.is_some_and(|key| key.len() < 16) {
        b.fault_in(config, "sealingKey", "`sealingKey` must have 16 bytes or more");
    }
    Strategy::Header { name, key: key.map(Key::new) }
}

fn session_id(b: &mut Build<'_>, config: &Params) -> Strategy {
    let sources: Vec<Source> = config.objects("sources").filter_map(|s| source(b, s)).collect();
    if config.list("sources").is_empty() {
        b.fault_in(config, "sources", "`sources` needs at least one entry");
    }
    let limits =
        Limits { ttl: Duration::from_secs(config.u64("evictionTtlSeconds")), capacity: config.usize("maxSessions") };
    Strategy::SessionId { sources, limits }
}

fn source(b: &mut Build<'_>, source: &Params) -> Option<Source> {
    let (header, attribute, producer) = (source.str("header"), source.str("attribute"), source.str("producer"));
    match (header.is_empty(), attribute.is_empty()) {
        (false, true) => {
            if !producer.is_empty() {
                b.fault_in(
                    source,
                    "producer",
                    &format!("`producer` goes with `attribute`, not with the header `{header}`"),
                );
            }
            Some(Source::Header(header_name(b, source, "header", Use::Read)))
        }
        (true, false) => text(b, source).map(Source::Text),
        _ => {
            b.fault_in(source, "header", "each of `sources` needs either `header` or `attribute`");
            None
        }
    }
}

fn text(b: &mut Build<'_>, source: &Params) -> Option<TextId> {
    let (attribute, producer) = (source.str("attribute"), source.str("producer"));
    let Some((_, kind, type_name)) = TEXTS.iter().find(|(name, ..)| *name == attribute) else {
        let known = TEXTS.map(|(name, ..)| format!("`{name}`")).join(" and ");
        b.fault_in(source, "attribute", &format!("no plugin says `{attribute}` of a request; known are {known}"));
        return None;
    };
    let id = b.text(*kind, producer);
    if id.is_none() {
        let whose = if producer.is_empty() { String::new() } else { format!(" named `{producer}`") };
        b.fault_in(
            source,
            "attribute",
            &format!("nothing says `{attribute}` of requests: declare a plugin of type `{type_name}`{whose}"),
        );
    }
    id
}

/// With plain tokens in `x-session-token`.
#[cfg(test)]
pub(crate) fn by_plain_header() -> SessionAffinity {
    let strategy = Strategy::Header { name: "x-session-token".into(), key: None };
    SessionAffinity { strategy, profile: None, state: Arc::default() }
}

#[cfg(test)]
mod tests;
