//! Routing policies: the production router, and the baselines that every comparison needs (simulator 5).

mod affinity;
mod balance;
mod cost;
mod in_flight;
mod named;
mod oracle;
mod production;
mod replicas;
mod router;
mod sglang;
mod tree;

use pointsman_core::Nanos;
use pointsman_sim::Engine;

use crate::fleet::FleetOptions;
use crate::workload::Arrival;

pub use named::{BASELINES, Baseline, Choice};
pub use production::Production;
pub use router::Unusable;
pub(crate) use router::router;

/// What an engine's metrics page said when it was last read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gauges {
    /// Requests that wait.
    pub waiting: usize,
    /// Requests that run.
    pub running: usize,
    /// Share of KV blocks in use, 0 to 1.
    pub kv_usage: f64,
    /// When.
    pub at: Nanos,
}

/// A request to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// Its number in the workload.
    pub id: u32,
    /// What is asked.
    pub request: &'a Arrival,
    /// Keys of its prompt's full blocks, in the engines' block size.
    pub keys: &'a [u64],
}

/// What can be seen of the fleet. Only an oracle looks into the engines.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Time.
    pub now: Nanos,
    /// The engines as they are, also those that are down.
    pub engines: &'a [Engine],
    /// Numbers of those that are up as far as routers know, in order; at least one.
    pub up: &'a [usize],
    /// What was last read of them.
    pub gauges: &'a [Gauges],
    /// What they are.
    pub options: &'a FleetOptions,
}

/// How a request that was placed ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Over {
    /// Its tokens came; else the engine refused it.
    pub complete: bool,
    /// Prompt tokens.
    pub prompt: u64,
    /// Of those, found in the engine's cache.
    pub cached: u64,
    /// Generated tokens.
    pub output: u64,
}

/// Decides where requests go. Each run has its own.
pub trait Policy {
    /// Number of the engine; `None` refuses the request.
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize>;

    /// The engine that computes the prompt of the request that was just placed, where that is another.
    fn prefill(&self) -> Option<usize> {
        None
    }

    /// An engine is known to be down, with all that it held.
    fn gone(&mut self, _pod: usize) {}

    /// An engine is there again, with nothing in its cache.
    fn back(&mut self, _pod: usize) {}

    /// An engine's metrics were read.
    fn scraped(&mut self, _now: Nanos, _pod: usize, _engine: &Engine) {}

    /// The first token of a request that was placed is here.
    fn first_token(&mut self, _now: Nanos, _id: u32) {}

    /// A request that was placed has ended.
    fn ended(&mut self, _now: Nanos, _id: u32, _over: &Over) {}

    /// Whether engines share one endless cache: no policy of a real fleet, but the bound of all.
    fn pools_caches(&self) -> bool {
        false
    }
}
