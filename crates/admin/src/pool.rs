//! The router's pool, shown.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use pointsman_config::Fault;
use pointsman_core::{BlockHash, Clock};
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_plugins::NamedPlugin;
use pointsman_prefix::Tree;
use pointsman_router::Pool;
use pointsman_scheduling::record::{Decision, DecisionId};
use serde_json::Value;

use crate::View;
use crate::view::{Holding, PluginState, Prefixes};

/// (block, endpoint) pairs that a look at the prefix index takes in.
const EXAMINED: usize = 100_000;
/// Branches of it that are shown.
const SHOWN: usize = 400;
/// Bytes that are shown of a branch's text.
const EXCERPT: usize = 240;

impl View for Pool {
    fn decisions(&self, limit: usize, after: Option<DecisionId>) -> Vec<Arc<Decision>> {
        self.ring.newest(limit, after)
    }

    fn decided(&self) -> u64 {
        self.ring.pushed()
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

    fn prefixes(&self) -> Option<Prefixes> {
        let active = self.active();
        let state = &active.compiled.prefix.first()?.state;
        let holding = |endpoint: &Arc<Endpoint>| Holding {
            endpoint: Arc::clone(endpoint),
            blocks: state.index.len_of(endpoint.slot) as u64,
            turnover: state.index.turnover_of(endpoint.slot),
        };
        let tree = state.index.tree(EXAMINED, SHOWN);
        let texts = if self.show_prompts { texts(&self.ring.newest(usize::MAX, None), &tree) } else { Vec::new() };
        Some(Prefixes {
            block_tokens: state.block_tokens(),
            texts,
            tree,
            holdings: self.fleet.snapshot().endpoints.iter().map(holding).collect(),
        })
    }

    fn warnings(&self) -> Vec<Fault> {
        self.active().compiled.warnings.clone()
    }

    fn config_version(&self) -> u64 {
        self.active().version
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

/// How the own part of each branch begins, as far as records tell it.
fn texts(records: &[Arc<Decision>], tree: &Tree) -> Vec<Option<String>> {
    let places: HashMap<BlockHash, usize> = tree.branches.iter().enumerate().map(|(at, b)| (b.hash, at)).collect();
    let mut texts = vec![None; tree.branches.len()];
    for prompt in records.iter().filter_map(|decision| decision.prompt.as_deref()) {
        for &at in prompt.chain.iter().filter_map(|hash| places.get(hash)) {
            let branch = &tree.branches[at];
            if texts[at].is_none() {
                let text = prompt.of_blocks((branch.depth - branch.blocks) as usize, EXCERPT);
                texts[at] = text.map(Cow::into_owned);
            }
        }
    }
    texts
}
