//! `session-affinity-filter`: keep a session on the endpoint that it is bound to.
//!
//! Where the bound endpoint is among the candidates it alone stays; otherwise, and for a request without a session, nobody is dropped. How a session is
//! known and bound: `session_affinity`. The same plugin is called `multicluster-session-affinity-filter` where the endpoints are pools in other clusters.
//! Source: plugin specification 5.6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use crate::session_affinity::{self, SessionAffinity};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Cycle, Filter, Scope};
use std::sync::Arc;

/// Keeps sessions where they are.
#[derive(Debug)]
pub struct SessionAffinityFilter(Arc<SessionAffinity>);

impl Filter for SessionAffinityFilter {
    fn filter(&self, cycle: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        let Some(bound) = self.0.bound(cycle, scope) else { return };
        for i in (0..scope.len()).filter(|&i| i != bound) {
            drop(i, Reason::Text("the session is bound to another endpoint"));
        }
    }
}

const KINDS: &[Kind] = &[Kind::Filter, Kind::Hook];

/// Its row.
pub const ROW: Row = Row {
    params: session_affinity::PARAMS,
    example: "{strategy: session_id, sessionIdConfig: {sources: [{header: x-session-id}], evictionTtlSeconds: 600}}",
    build: Some(build),
    ..Row::new(
        "session-affinity-filter",
        KINDS,
        Stability::Alpha,
        "Keeps a session on the endpoint that it is bound to, while that is a candidate.",
    )
};

/// The row of its name where the endpoints are pools in other clusters.
pub const MULTICLUSTER_ROW: Row = Row {
    params: session_affinity::PARAMS,
    build: Some(build),
    ..Row::new(
        "multicluster-session-affinity-filter",
        KINDS,
        Stability::Alpha,
        "Keeps a session on the pool that it is bound to, while that is a candidate.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let affinity = session_affinity::build(b);
    let filter = SessionAffinityFilter(Arc::clone(&affinity));
    Instance { filter: Some(Arc::new(filter)), ..session_affinity::instance(affinity) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_affinity::by_plain_header;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_bound_endpoint_stays_alone_and_without_one_everybody_does() {
        let filter = SessionAffinityFilter(Arc::new(by_plain_header()));
        let kept = |token: &str| {
            let bench = Bench::new(["a", "b", "c"].map(endpoint)).header("x-session-token", token);
            bench.kept(&filter)
        };
        assert_eq!(kept("ZGVmYXVsdC9i"), ["b"]);
        assert_eq!(kept("ZGVmYXVsdC96"), ["a", "b", "c"]);
        assert_eq!(kept(""), ["a", "b", "c"]);
    }
}
