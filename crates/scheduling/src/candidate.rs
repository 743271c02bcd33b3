//! Candidates: one consistent view of the endpoints a request may go to.

use pointsman_core::Nanos;
use pointsman_fleet::{Endpoint, EngineView};
use std::sync::Arc;
use std::time::Duration;

/// An endpoint and its engine's state, read once for this request.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The endpoint.
    pub endpoint: &'a Arc<Endpoint>,
    /// Its place in the fleet snapshot.
    pub index: u32,
    /// The engine's gauges as last read.
    pub engine: EngineView,
    /// Gauges read before this moment are stale: unknown, rather than what they last were.
    pub fresh_since: Nanos,
    /// Requests in flight through this router.
    pub in_flight: u64,
}

impl<'a> Candidate<'a> {
    /// Reads the state of an endpoint. Gauges older than `stale_after` count as unknown; zero keeps them for ever.
    #[must_use]
    pub fn read(endpoint: &'a Arc<Endpoint>, index: u32, now: Nanos, stale_after: Duration) -> Self {
        let fresh_since =
            if stale_after.is_zero() { Nanos(0) } else { Nanos(now.0.saturating_sub(stale_after.as_nanos() as u64)) };
        Self { endpoint, index, engine: endpoint.engine.view(), fresh_since, in_flight: endpoint.load.requests() }
    }

    /// Requests waiting in the engine; `None` when unknown or stale.
    #[must_use]
    pub fn waiting(&self) -> Option<f64> {
        (self.engine.waiting_at > self.fresh_since).then_some(self.engine.waiting)
    }

    /// Requests running in the engine; `None` when unknown or stale.
    #[must_use]
    pub fn running(&self) -> Option<f64> {
        (self.engine.running_at > self.fresh_since).then_some(self.engine.running)
    }

    /// A further number about the endpoint, by its [`pointsman_fleet::attribute_key`]; `None` when unknown or stale.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<f64> {
        self.endpoint.engine.attribute(key).filter(|(_, at)| *at > self.fresh_since).map(|(value, _)| value)
    }

    /// KV cache usage, 0 to 1; `None` when unknown or stale.
    #[must_use]
    pub fn kv_usage(&self) -> Option<f64> {
        (self.engine.kv_usage_at > self.fresh_since).then_some(self.engine.kv_usage)
    }
}

/// The candidates that are still in: what filters have left.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Every candidate of the request. Columns of facts are indexed like this slice.
    pub all: &'a [Candidate<'a>],
    /// Positions in `all` of those still in, in order.
    pub kept: &'a [u32],
}

impl<'a> Scope<'a> {
    /// How many are in.
    #[must_use]
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Whether nobody is in.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Those that are in, each with its position in `all`.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a Candidate<'a>)> + '_ {
        self.kept.iter().map(|&i| (i as usize, &self.all[i as usize]))
    }
}
