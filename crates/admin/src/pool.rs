//! The router's pool, shown.

use std::sync::Arc;

use pointsman_core::Clock;
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_plugins::NamedPlugin;
use pointsman_router::Pool;
use pointsman_scheduling::record::{Decision, DecisionId};
use serde_json::Value;

use crate::View;
use crate::view::PluginState;

impl View for Pool {
    fn decisions(&self, limit: usize, after: Option<DecisionId>) -> Vec<Arc<Decision>> {
        self.ring.newest(limit, after)
    }

    fn decision(&self, id: DecisionId) -> Option<Arc<Decision>> {
        self.ring.get(id)
    }

    fn fleet(&self) -> Arc<Snapshot> {
        self.fleet.snapshot()
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    fn cached_blocks(&self, endpoint: &Endpoint) -> Option<u64> {
        let active = self.active();
        // The first one is the one that bodies are hashed for.
        active.compiled.prefix.first().map(|p| p.state.index.len_of(endpoint.slot) as u64)
    }

    fn config(&self) -> (u64, Value) {
        let active = self.active();
        (active.version, active.compiled.effective.clone())
    }

    fn last_reload(&self) -> Option<Value> {
        self.last_reload().and_then(|last| serde_json::to_value(last).ok())
    }

    fn shadow(&self) -> Option<Value> {
        self.shadow_report()
    }

    fn plugins(&self) -> Vec<PluginState> {
        let active = self.active();
        let state = |p: &NamedPlugin| PluginState {
            name: p.name.to_string(),
            type_name: p.type_name.to_owned(),
            state: self.learned(p.type_name, &p.name),
        };
        active.compiled.plugins.iter().map(state).collect()
    }

    fn metrics(&self, openmetrics: bool) -> String {
        self.metrics.render(&self.fleet.load(), self.clock.now(), openmetrics)
    }
}
