//! Policies by name, and how one is made for a run.

use std::sync::Arc;

use pointsman_plugins::DefaultProfile;

use super::Policy;
use super::affinity::{Affinity, Of};
use super::balance::{Balance, By};
use super::cost::DynamoCost;
use super::oracle::{Oracle, PooledCache};
use super::production::Production;
use super::replicas::Replicas;
use super::router::Unusable;
use super::sglang::{CacheAware, PrefixOnly};
use crate::fleet::FleetOptions;
use crate::mix;

/// A policy that is not a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// Name.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
}

const fn baseline(name: &'static str, doc: &'static str) -> Baseline {
    Baseline { name, doc }
}

/// All of them.
pub const BASELINES: &[Baseline] = &[
    baseline("round-robin", "one after the other"),
    baseline("random", "any"),
    baseline("least-request", "fewest requests in flight, as this router counts them; also `least-connections`"),
    baseline("power-of-two", "of two random engines the one with fewer requests in flight"),
    baseline("load", "queue and KV cache as last scraped, nothing else"),
    baseline("session-affinity", "a conversation stays where its first request went"),
    baseline("consistent-hash", "ring over the prompt's first 512 tokens, loads bounded by 1.25 of the mean"),
    baseline("hash", "the same without a bound"),
    baseline("prefix-only", "the longest match, whatever the load"),
    baseline("sglang", "cache-aware, thresholds 0.3 / 64 / 1.5"),
    baseline("sglang-doc", "cache-aware, thresholds 0.5 / 32 / 1.0001"),
    baseline("dynamo-cost", "fewest blocks to compute and to decode"),
    baseline("oracle", "sees into the engines; earliest first token, greedily"),
    baseline("pooled-cache", "all engines share one endless cache: the bound on hits"),
];

/// What decides in a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// A policy with a name.
    Baseline(&'static str),
    /// The production router.
    Config {
        /// What a person calls it.
        name: Arc<str>,
        /// Document; empty = the default.
        document: Arc<[u8]>,
        /// What an empty document means.
        default: DefaultProfile,
    },
}

impl Choice {
    /// The configuration that `serve` has when it is given none.
    #[must_use]
    pub fn default_picker() -> Self {
        Self::Config { name: "default".into(), document: Arc::from([]), default: DefaultProfile::Serve }
    }

    /// A document under a name.
    #[must_use]
    pub fn document(name: impl Into<Arc<str>>, document: impl Into<Arc<[u8]>>) -> Self {
        Self::Config { name: name.into(), document: document.into(), default: DefaultProfile::Serve }
    }

    /// `default`, `default-epp`, a preset or a baseline; `None` for anything else.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if let Some(preset) = pointsman_plugins::presets::Preset::named(name) {
            return Some(Self::document(preset.name, preset.document().into_bytes()));
        }
        match name {
            "default" => Some(Self::default_picker()),
            "default-epp" => {
                let default = DefaultProfile::Epp;
                Some(Self::Config { name: name.into(), document: Arc::from([]), default })
            }
            "least-connections" => Some(Self::Baseline("least-request")),
            _ => BASELINES.iter().find(|b| b.name == name).map(|b| Self::Baseline(b.name)),
        }
    }

    /// Every name that [`Choice::named`] knows, but for `least-connections`, which is `least-request`.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let presets = pointsman_plugins::presets::PRESETS.iter().map(|p| p.name);
        ["default", "default-epp"].into_iter().chain(BASELINES.iter().map(|b| b.name)).chain(presets)
    }

    /// Whether no router can do what it does: it knows what only engines know, or needs caches that they have not.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        matches!(self, Self::Baseline("oracle" | "pooled-cache"))
    }

    /// What a person calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Baseline(name) => name,
            Self::Config { name, .. } => name,
        }
    }

    /// The policy of one run.
    ///
    /// # Errors
    /// When a document has faults.
    pub fn make(&self, fleet: &FleetOptions, seed: u64) -> Result<Box<dyn Policy>, Unusable> {
        if fleet.routers <= 1 {
            return self.one(fleet, seed);
        }
        let routers = (0..fleet.routers as u64).map(|at| self.one(fleet, mix(seed ^ at << 32)));
        Ok(Box::new(Replicas::new(routers.collect::<Result<_, _>>()?)))
    }

    fn one(&self, fleet: &FleetOptions, seed: u64) -> Result<Box<dyn Policy>, Unusable> {
        let hash = |bound| Box::new(Affinity::new(Of::Beginning(512), bound, seed)) as Box<dyn Policy>;
        let balance = |by| Box::new(Balance::new(by, seed)) as Box<dyn Policy>;
        let name = match self {
            Self::Baseline(name) => *name,
            Self::Config { document, default, .. } => {
                return Ok(Box::new(Production::new(document, *default, fleet, seed)?));
            }
        };
        Ok(match name {
            "random" => balance(By::Chance),
            "least-request" => balance(By::LeastRequest),
            "power-of-two" => balance(By::TwoChoices),
            "load" => balance(By::Scraped),
            "session-affinity" => Box::new(Affinity::new(Of::Session, None, seed)),
            "consistent-hash" => hash(Some(1.25)),
            "hash" => hash(None),
            "prefix-only" => Box::new(PrefixOnly::new(seed)),
            "sglang" => Box::new(CacheAware::new(0.3, 64, 1.5, seed)),
            "sglang-doc" => Box::new(CacheAware::new(0.5, 32, 1.0001, seed)),
            "dynamo-cost" => Box::new(DynamoCost::new(1.0, seed)),
            "oracle" => Box::new(Oracle::new(seed)),
            "pooled-cache" => Box::new(PooledCache::new(seed)),
            _ => balance(By::Turn),
        })
    }
}
