//! What the listener shows of one pool.

use std::sync::Arc;

use pointsman_core::Clock;
use pointsman_fleet::{Endpoint, Snapshot};
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

/// A pool, seen from outside. Every method is called on a request's path of the admin listener only, never on that of an inference request.
pub trait View: Send + Sync + 'static {
    /// The newest `limit` decisions, newest first; only those after `after` when given.
    fn decisions(&self, limit: usize, after: Option<DecisionId>) -> Vec<Arc<Decision>>;
    /// One decision, if its record is still kept.
    fn decision(&self, id: DecisionId) -> Option<Arc<Decision>>;
    /// The endpoints now.
    fn fleet(&self) -> Arc<Snapshot>;
    /// The clock that dates them.
    fn clock(&self) -> &dyn Clock;
    /// Blocks that the prefix index believes the endpoint to hold; `None` where no index is kept.
    fn cached_blocks(&self, endpoint: &Endpoint) -> Option<u64>;
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
