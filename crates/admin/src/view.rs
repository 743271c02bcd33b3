//! What the listener shows of one pool.

use std::sync::Arc;

use pointsman_config::Fault;
use pointsman_core::Clock;
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_prefix::{Tree, Turnover};
use pointsman_scheduling::record::{Decision, DecisionId};
use serde_json::Value;

/// A plugin instance, seen from outside.
#[derive(Clone, Debug)]
pub struct PluginState {
    /// Instance name.
    pub name: String,
    /// Configuration type.
    pub type_name: String,
    /// What it has learned; `None` where it keeps nothing.
    pub state: Option<Value>,
}

/// What endpoints are believed to hold.
#[derive(Clone, Debug, Default)]
pub struct Prefixes {
    /// Tokens in a block.
    pub block_tokens: u32,
    /// Prefixes and who holds them.
    pub tree: Tree,
    /// By endpoint, in the order of the fleet.
    pub holdings: Vec<Holding>,
    /// How the own part of each branch begins; empty where prompts are not to be shown.
    pub texts: Vec<Option<String>>,
}

/// What one endpoint is believed to hold.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// Blocks that it holds.
    pub blocks: u64,
    /// Blocks that came and went.
    pub turnover: Turnover,
}

/// A pool, seen from outside. Every method is called on a request's path of the admin listener only, never on that of an inference request.
pub trait View: Send + Sync + 'static {
    /// The newest `limit` decisions, newest first; only those after `after` when given.
    fn decisions(&self, limit: usize, after: Option<DecisionId>) -> Vec<Arc<Decision>>;
    /// How many decisions there have been.
    fn decided(&self) -> u64;
    /// One decision, if its record is still kept.
    fn decision(&self, id: DecisionId) -> Option<Arc<Decision>>;
    /// The endpoints now.
    fn fleet(&self) -> Arc<Snapshot>;
    /// The clock that dates them.
    fn clock(&self) -> &dyn Clock;
    /// Blocks that the prefix index believes the endpoint to hold; `None` where no index is kept.
    fn cached_blocks(&self, endpoint: &Endpoint) -> Option<u64>;
    /// The prefix index as a tree; `None` where no index is kept. Takes milliseconds.
    fn prefixes(&self) -> Option<Prefixes> {
        None
    }
    /// What the configuration in force says that is legal and surely not meant.
    fn warnings(&self) -> Vec<Fault> {
        Vec::new()
    }
    /// Version of the configuration in force.
    fn config_version(&self) -> u64 {
        self.config().0
    }
    /// Version of the configuration in force, and the configuration with defaults filled in and marked.
    fn config(&self) -> (u64, Value);
    /// How the last attempt to put another configuration in force went.
    fn last_reload(&self) -> Option<Value> {
        None
    }
    /// How often the shadow profiles would have chosen otherwise; `None` without any.
    fn shadow(&self) -> Option<Value> {
        None
    }
    /// Every plugin instance, in order, with what it has learned.
    fn plugins(&self) -> Vec<PluginState>;
    /// The metrics page, in OpenMetrics or in Prometheus' older text format.
    fn metrics(&self, openmetrics: bool) -> String;
}
