//! `agent-identity`: which session of which agent a request belongs to, by the headers that agents send.
//!
//! The first of these headers that is not blank: those of `additionalSessionHeaders` in order, then
//! `x-claude-code-session-id`, `x-session-affinity`, `session-id`, `session_id`. The identity is the request's fairness
//! id too, unless a fairness header gives one. Source: plugin specification 10.4.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::headers::{FAIRNESS_ID, FAIRNESS_ID_OLD};
use pointsman_scheduling::{DataKind, Facts, Request, RequestHook, TextId};
use std::sync::Arc;

/// Headers of agents that are known.
const KNOWN: [&str; 4] = ["x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];

/// Reads the identity.
#[derive(Debug)]
pub struct AgentIdentity {
    headers: Vec<Box<str>>,
    text: Option<TextId>,
}

impl RequestHook for AgentIdentity {
    fn request(&self, request: &mut Request, facts: &mut Facts) {
        let value = |name: &str| request.header(name).map(str::trim).filter(|v| !v.is_empty());
        let Some(identity) = self.headers.iter().find_map(|name| value(name)) else { return };
        let identity: Arc<str> = identity.into();
        let fairness = request.header(FAIRNESS_ID).or_else(|| request.header(FAIRNESS_ID_OLD));
        if fairness.is_none_or(str::is_empty) {
            request.fairness_id = Arc::clone(&identity);
        }
        if let Some(text) = self.text {
            facts.set_text(text, identity);
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new(
        "additionalSessionHeaders",
        ParamKind::List(&ParamKind::String),
        "Headers that are looked at before those that are known.",
    )
    .default("[]")],
    makes: &[DataKind::AgentIdentity],
    build: Some(build),
    ..Row::new(
        "agent-identity",
        &[Kind::Hook],
        Stability::Alpha,
        "Tells sessions of agents apart by their headers, and is fair to each.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let more: Vec<&str> = b.params.strings("additionalSessionHeaders").collect();
    let headers = more.iter().copied().chain(KNOWN).map(|name| name.trim().to_ascii_lowercase().into()).collect();
    if more.iter().any(|name| name.trim().is_empty()) {
        b.fault("additionalSessionHeaders", "`additionalSessionHeaders` holds an empty name");
    }
    let hook = AgentIdentity { headers, text: b.own_text(DataKind::AgentIdentity) };
    Instance { request: Some(Arc::new(hook)), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_scheduling::Columns;

    /// The identity and the fairness id of a request with these headers.
    fn read(headers: &[(&str, &str)]) -> (Option<String>, String) {
        let mut columns = Columns::default();
        let text = columns.text();
        let mut facts = columns.facts();
        let known = std::iter::once("x-my-session").chain(KNOWN).map(Into::into).collect();
        let mut request = Request {
            headers: headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            ..Request::default()
        };
        AgentIdentity { headers: known, text: Some(text) }.request(&mut request, &mut facts);
        (facts.text(text).map(ToString::to_string), request.fairness_id.to_string())
    }

    #[test]
    fn the_first_header_that_says_something_counts() {
        for (headers, identity) in [
            (&[("session-id", "s"), ("x-my-session", "m")][..], "m"),
            (&[("session_id", "u"), ("x-claude-code-session-id", "cc")], "cc"),
            (&[("x-session-affinity", " af "), ("session-id", "s")], "af"),
            (&[("x-session-affinity", "  "), ("session-id", "s1")], "s1"),
            (&[("session_id", "s2")], "s2"),
        ] {
            assert_eq!(read(headers), (Some(identity.to_owned()), identity.to_owned()), "{headers:?}");
        }
        assert_eq!(read(&[]), (None, "default-flow".to_owned()));
    }

    #[test]
    fn a_fairness_header_wins_under_either_name() {
        // The router has read the header into the request before; a hook leaves it alone.
        for name in [FAIRNESS_ID, FAIRNESS_ID_OLD] {
            let (identity, fairness) = read(&[("session-id", "s3"), (name, "fh")]);
            assert_eq!((identity.as_deref(), &*fairness), (Some("s3"), "default-flow"));
        }
        assert_eq!(read(&[("session-id", "s3"), (FAIRNESS_ID, "")]).1, "s3");
    }
}
