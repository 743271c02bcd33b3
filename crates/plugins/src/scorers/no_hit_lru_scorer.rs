//! `no-hit-lru-scorer`: spread requests that nobody has cached.
//!
//! A request is cold when no candidate holds a block of it. A warm request scores 0.5 everywhere. A cold one scores the candidates by when they last
//! received a cold request: never-used ones first, in candidate order, then the least recent; the i-th of n gets `1 - i / (n - 1)`, a single one 1.
//! Ranks count candidates only, so that endpoints which are gone or filtered away take no place. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::learned::{DUMPED, Learned};
use crate::lru::Lru;
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use parking_lot::Mutex;
use pointsman_config::{Param, ParamKind};
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_scheduling::{
    AddedHeaders, Chosen, ColumnId, Cycle, DataKind, Facts, Held, Hooks, PrefixMatch, Role, Scope, Scorer, StagePick,
};
use std::sync::Arc;

/// Spreads cold requests.
#[derive(Debug)]
pub struct NoHitLruScorer {
    capacity: usize,
    matches: Option<ColumnId<PrefixMatch>>,
    used: Arc<LastUsed>,
}

/// When each endpoint last received a cold request, by endpoint id.
#[derive(Debug, Default)]
pub struct LastUsed(Mutex<Lru<u64>>);

impl Learned for LastUsed {
    fn endpoint_left(&self, endpoint: &Endpoint) {
        self.0.lock().remove(&endpoint.id);
    }

    fn dump(&self, fleet: &Snapshot) -> Option<serde_json::Value> {
        let used = self.0.lock();
        let turn = |e: &Arc<Endpoint>| Some((used.turn(&e.id)?, e.name().to_string()));
        let mut order: Vec<(u64, String)> = fleet.endpoints.iter().filter_map(turn).collect();
        order.sort_unstable();
        let shown: Vec<&String> = order.iter().take(DUMPED).map(|(_, name)| name).collect();
        Some(serde_json::json!({"endpoints": shown, "totalEndpoints": order.len(), "maxEndpoints": DUMPED}))
    }
}

impl NoHitLruScorer {
    fn cold(&self, facts: &Facts) -> bool {
        self.matches.and_then(|id| facts.column(id)).is_none_or(|m| m.iter().all(|m| m.matched == 0))
    }

    fn touch(&self, endpoint: u64) {
        self.used.0.lock().touch(endpoint, self.capacity);
    }
}

impl Scorer for NoHitLruScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        if !self.cold(cycle.facts) {
            out.fill(0.5);
            return;
        }
        let n = out.len();
        let mut order: Vec<(u64, usize)> = {
            let used = self.used.0.lock();
            scope.iter().enumerate().map(|(i, (_, c))| (used.turn(&c.endpoint.id).unwrap_or(0), i)).collect()
        };
        // Never used is turn 0, and the sort is stable: candidate order among those.
        order.sort_by_key(|(turn, _)| *turn);
        for (rank, (_, i)) in order.into_iter().enumerate() {
            out[i] = if n == 1 { 1.0 } else { 1.0 - rank as f64 / (n - 1) as f64 };
        }
    }
}

impl Hooks for NoHitLruScorer {
    fn chosen(&self, chosen: &Chosen<'_>, _: &mut AddedHeaders) -> Option<Box<dyn Held>> {
        if self.cold(chosen.facts) {
            self.touch(chosen.endpoint.id);
            if let Some(prefill) = StagePick::of(chosen.others, Role::Prefill) {
                self.touch(prefill.endpoints[0].id);
            }
        }
        None
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("lruSize", ParamKind::Integer { min: Some(1), max: Some(1_000_000) }, "Endpoints remembered.")
            .default("1024"),
        PREFIX_PRODUCER,
        Param::new("prefixPluginType", ParamKind::Any, "Ignored.").deprecated("it is ignored"),
        Param::new("prefixPluginName", ParamKind::Any, "Ignored.").deprecated("it is ignored"),
    ],
    needs: &[Need::named(DataKind::PrefixMatch, "prefixMatchInfoProducerName")],
    formula: "warm: 0.5; cold: 1 - rank / (n - 1), rank by least recent cold request",
    build: Some(build),
    ..Row::new("no-hit-lru-scorer", &[Kind::Scorer], Stability::Beta, "Spreads requests that nobody has cached.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let scorer = Arc::new(NoHitLruScorer {
        capacity: b.params.i64("lruSize").max(1) as usize,
        matches: b.column("prefixMatchInfoProducerName"),
        used: b.learned(LastUsed::default),
    });
    Instance { scorer: Some(scorer.clone()), hooks: Some(scorer), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn cold_requests_go_to_never_used_endpoints_first_and_then_to_the_least_recent() {
        let bench = Bench::new(["a", "b", "c", "d"].map(endpoint));
        let scorer = NoHitLruScorer { capacity: 1024, matches: None, used: Arc::default() };
        let ids: Vec<u64> = bench.endpoints().iter().map(|e| e.id).collect();
        scorer.touch(99_999); // gone: takes no place in the ranking
        scorer.touch(ids[2]);
        scorer.touch(ids[0]);
        let scores = bench.scores(&scorer);
        for (got, want) in scores.iter().zip([0.0, 1.0, 1.0 / 3.0, 2.0 / 3.0]) {
            assert!((got - want).abs() < 1e-12, "{scores:?}");
        }
    }

    #[test]
    fn only_so_many_endpoints_are_remembered() {
        let scorer = NoHitLruScorer { capacity: 3, matches: None, used: Arc::default() };
        (0..10).for_each(|id| scorer.touch(id));
        let left: Vec<u64> = scorer.used.0.lock().iter().map(|(id, ())| id).collect();
        assert_eq!(left, [7, 8, 9]);
    }
}
