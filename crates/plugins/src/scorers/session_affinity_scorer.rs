//! `session-affinity-scorer`: 1 for the endpoint that the request's session is bound to, 0 for the others.
//!
//! A request without a session, or bound to an endpoint that is no candidate, scores 0 everywhere. How a session is known and bound: `session_affinity`.
//! Source: plugin specification 5.6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use crate::session_affinity::{self, SessionAffinity};
use pointsman_scheduling::{Cycle, Scope, Scorer};
use std::sync::Arc;

/// Prefers the endpoint of the session.
#[derive(Debug)]
pub struct SessionAffinityScorer(Arc<SessionAffinity>);

impl Scorer for SessionAffinityScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        if let Some(bound) = self.0.bound(cycle, scope) {
            out[bound] = 1.0;
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: session_affinity::PARAMS,
    formula: "the endpoint that the session is bound to: 1; else 0",
    example: "{strategy: session_id, sessionIdConfig: {sources: [{header: x-session-id}], evictionTtlSeconds: 600}}",
    build: Some(build),
    ..Row::new(
        "session-affinity-scorer",
        &[Kind::Scorer, Kind::Hook],
        Stability::Alpha,
        "Prefers the endpoint that the request's session is bound to.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let affinity = session_affinity::build(b);
    let scorer = SessionAffinityScorer(Arc::clone(&affinity));
    Instance { scorer: Some(Arc::new(scorer)), ..session_affinity::instance(affinity) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session_affinity::by_plain_header;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_bound_endpoint_scores_one() {
        let scorer = SessionAffinityScorer(Arc::new(by_plain_header()));
        let scores = |token: &str| {
            let bench = Bench::new(["a", "b", "c"].map(endpoint)).header("x-session-token", token);
            bench.scores(&scorer)
        };
        assert_eq!(scores("ZGVmYXVsdC9j"), [0.0, 0.0, 1.0]);
        assert_eq!(scores("ZGVmYXVsdC96"), [0.0; 3]);
    }
}
