//! A fleet of simulated engines under a virtual clock, with a router in front.

mod churn;
mod outage;
mod outcome;
mod pooled;
mod run;
mod scrape;
mod transfer;

use std::time::Duration;

use pointsman_sim::{Engine, EngineConfig, Profile, Timing};

pub use outage::Outage;
pub use outcome::{Ended, Outcome, Sample};
pub use run::{Progress, run};
pub use transfer::Disaggregation;

/// Engines, and what lies between them and the router.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// Engines, at least 1.
    pub pods: usize,
    /// Deployment that each is.
    pub profile: Profile,
    /// Share of the profile's KV cache that each has; 1 is what it has.
    pub cache: f64,
    /// Tokens per KV block.
    pub block_size: u32,
    /// Requests that may run at once in one engine.
    pub max_num_seqs: usize,
    /// Tokens computed in one step.
    pub max_num_batched_tokens: u64,
    /// Requests that may wait in one engine; beyond, it refuses.
    pub max_waiting: usize,
    /// Adapters that one engine can run at once.
    pub max_loras: usize,
    /// Time to bring an adapter into a slot.
    pub lora_load: Duration,
    /// Time between reading an engine's metrics and reading them again. Engines are read in turn, spread over it.
    pub scrape: Duration,
    /// Time from a decision to the request's arrival at the engine.
    pub dispatch: Duration,
    /// Tokenising and the like, before a request enters the engine's queue. Part of TTFT.
    pub api_overhead: Duration,
    /// Sigma of the log-normal factor on each step.
    pub noise: f64,
    /// Steps cost a request that many times less or more than its figure, engine by engine in turn: unequal hardware. Empty: all alike.
    pub slower: Vec<f64>,
    /// Routers, each with counts and an index of its own; requests come to them in turn.
    pub routers: usize,
    /// Engines that die, and perhaps return.
    pub outages: Vec<Outage>,
    /// Time until routers know that an engine is down when no request of theirs meets it before.
    pub notice: Duration,
    /// Engines that compute prompts for others.
    pub disaggregation: Disaggregation,
}

impl Default for FleetOptions {
    fn default() -> Self {
        let profile = Profile::all()[0];
        Self {
            pods: 4,
            profile,
            cache: 1.0,
            block_size: 64,
            max_num_seqs: 1_024,
            max_num_batched_tokens: 8_192,
            max_waiting: 1_000_000,
            max_loras: 4,
            lora_load: Duration::from_millis(10),
            scrape: Duration::from_millis(50),
            dispatch: Duration::from_millis(1),
            api_overhead: Duration::from_millis(15),
            noise: 0.03,
            slower: Vec::new(),
            routers: 1,
            outages: Vec::new(),
            notice: Duration::from_millis(100),
            disaggregation: Disaggregation::default(),
        }
    }
}

impl FleetOptions {
    /// KV blocks of one engine.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        let blocks = f64::from(self.profile.blocks_of(self.block_size)) * self.cache.max(0.0);
        blocks.clamp(1.0, f64::from(u32::MAX - 1)) as u32
    }

    /// The engines of one run.
    pub(crate) fn engines(&self, seed: u64) -> Vec<Engine> {
        (0..self.pods.max(1)).map(|at| self.engine(at, seed)).collect()
    }

    /// One of them, as it starts: nothing in its cache.
    pub(crate) fn engine(&self, at: usize, seed: u64) -> Engine {
        let mut costs = self.profile.costs();
        costs.noise = self.noise;
        let slower = if self.slower.is_empty() { 1.0 } else { self.slower[at % self.slower.len()] };
        let config = EngineConfig {
            blocks: self.blocks(),
            block_size: self.block_size,
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            max_waiting: self.max_waiting,
            max_loras: self.max_loras,
            api_overhead: self.api_overhead,
            lora_load: self.lora_load,
            hold: self.disaggregation.hold,
            seed: crate::mix(seed ^ (at as u64) << 32 ^ 0x0065_6e67),
            ..EngineConfig::default()
        };
        Engine::new(config, Timing::Step(costs.times(slower)))
    }
}
