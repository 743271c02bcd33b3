//! Endpoints as JSON, and taking one out by hand.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use pointsman_core::{Clock, Nanos};
use pointsman_fleet::{Condition, Endpoint, Snapshot};
use serde::Serialize;

use crate::View;

/// One endpoint, for a person. `null` is unknown, not zero.
#[derive(Debug, Serialize)]
pub(crate) struct Shown {
    address: String,
    name: String,
    namespace: String,
    labels: BTreeMap<String, String>,
    scheme: &'static str,
    ready: bool,
    since: String,
    since_ms: u64,
    reason: Option<String>,
    conditions: Vec<&'static str>,
    scrape_age_ms: Option<u64>,
    scrape_error: Option<String>,
    engine: Option<String>,
    models: Option<Vec<String>>,
    running: Option<f64>,
    waiting: Option<f64>,
    kv_cache_usage: Option<f64>,
    lora: Option<Lora>,
    in_flight: u64,
    in_flight_tokens: u64,
    cached_blocks: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Lora {
    running: Vec<String>,
    waiting: Vec<String>,
    max: Option<u32>,
}

impl Shown {
    pub(crate) fn of(endpoint: &Endpoint, view: &impl View) -> Self {
        let clock = view.clock();
        let now = clock.now();
        let (health, signals) = (endpoint.health.describe(), endpoint.engine.view());
        let adapters = endpoint.engine.lora();
        let told = endpoint.engine.lora_at().0 != 0;
        let known = |known: bool, value: f64| known.then_some(value);
        Self {
            address: endpoint.host_port().to_owned(),
            name: endpoint.name().name.to_string(),
            namespace: endpoint.name().namespace.to_string(),
            labels: endpoint.meta.labels.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            scheme: endpoint.meta.scheme.as_str(),
            ready: health.ready,
            since: rfc3339(health.since_unix_millis),
            since_ms: now.since(health.since).as_millis() as u64,
            reason: health.reason.as_deref().map(str::to_owned),
            conditions: Condition::ALL.iter().filter(|c| endpoint.health.has(**c)).map(|c| c.as_str()).collect(),
            scrape_age_ms: age_ms(endpoint.engine.scraped_at(), now),
            scrape_error: endpoint.engine.last_error().as_deref().map(str::to_owned),
            engine: endpoint.engine.engine().as_deref().map(str::to_owned),
            models: endpoint.engine.models().map(|models| names(&models)),
            running: known(signals.known_running(), signals.running),
            waiting: known(signals.known_waiting(), signals.waiting),
            kv_cache_usage: known(signals.known_kv(), signals.kv_usage),
            lora: told.then(|| Lora {
                running: names(adapters.active()),
                waiting: names(adapters.waiting()),
                max: Some(adapters.max_active()).filter(|max| *max > 0),
            }),
            in_flight: endpoint.load.requests(),
            in_flight_tokens: endpoint.load.tokens(),
            cached_blocks: view.cached_blocks(endpoint),
        }
    }
}

fn names(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

fn rfc3339(unix_millis: u64) -> String {
    let millis = i64::try_from(unix_millis).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis).map_or_else(|_| String::new(), |t| format!("{t:.3}"))
}

fn age_ms(at: Nanos, now: Nanos) -> Option<u64> {
    (at.0 != 0).then(|| now.since(at).as_millis() as u64)
}

/// The one endpoint that a person means by its name, its `namespace/name` or its `host:port`.
pub(crate) fn find<'s>(fleet: &'s Snapshot, wanted: &str) -> Result<&'s Arc<Endpoint>, Unfound> {
    if let Some(endpoint) = fleet.at(wanted) {
        return Ok(endpoint);
    }
    let fits = |e: &&Arc<Endpoint>| {
        let name = e.name();
        *name.name == *wanted
            || wanted
                .split_once('/')
                .is_some_and(|(namespace, rest)| *name.namespace == *namespace && *name.name == *rest)
    };
    let mut found = fleet.endpoints.iter().filter(fits);
    match (found.next(), found.next()) {
        (Some(endpoint), None) => Ok(endpoint),
        (None, _) => Err(Unfound::Nobody),
        (Some(_), Some(_)) => Err(Unfound::Several),
    }
}

/// Why [`find`] found no endpoint.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfound {
    Nobody,
    Several,
}

/// Takes an endpoint out, or back in, and leaves a line that says who did it and when. Tells whether anything changed.
///
/// Requests already there run on; learned state stays, so that an endpoint taken back in is as warm as it was.
pub(crate) fn drain(endpoint: &Endpoint, out: bool, peer: SocketAddr, token: bool, clock: &dyn Clock) -> bool {
    let before = endpoint.health.has(Condition::Drained);
    if before != out {
        let reason = out.then(|| Arc::from(format!("drained by hand (from {})", peer.ip())));
        endpoint.health.set(Condition::Drained, reason, clock);
    }
    let (action, changed) = (if out { "drain" } else { "undrain" }, before != out);
    tracing::info!(
        target: "pointsman::audit",
        action,
        endpoint = %endpoint.name(),
        address = endpoint.host_port(),
        %peer,
        token,
        changed,
        at_unix_ms = clock.unix_millis(),
        "endpoint {} {}",
        endpoint.name(),
        if out { "drained by hand" } else { "taken back in by hand" },
    );
    changed
}
