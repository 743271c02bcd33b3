//! Plugin types as the caller knows them, and the checks that need them.

mod check;

pub use check::{Checked, check, check_decoded, check_types};

use crate::params::Param;

/// What a plugin type can be used as; many types are more than one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Narrows the candidates.
    Filter,
    /// Rates each candidate from 0 to 1.
    Scorer,
    /// Chooses among the rated candidates.
    Picker,
    /// Decides which profiles run, and in what order.
    ProfileHandler,
    /// Decides whether a request is disaggregated.
    Decider,
    /// Attaches facts to a request.
    Producer,
    /// Lets a request in or not.
    Admission,
    /// Looks at candidates before they are scheduled.
    Screener,
    /// Called at some step of a request.
    Hook,
    /// Reads request bodies.
    Parser,
    /// Fetches the state of endpoints.
    DataSource,
    /// Reads what a source fetched.
    Extractor,
    /// Says which endpoints exist.
    Discovery,
    /// Shares state between replicas.
    CrossReplicaSyncer,
    /// Chooses the next flow of a band.
    Fairness,
    /// Orders the requests of a flow.
    Ordering,
    /// Sets how much of the pool a band may use.
    UsageLimit,
    /// Says how full the pool is.
    SaturationDetector,
    /// Chooses what to evict.
    Eviction,
}

impl Kind {
    /// The word for it, with its article.
    #[must_use]
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Admission => "an admission plugin",
            Self::Extractor => "an extractor",
            Self::Discovery => "an endpoint discovery",
            Self::Ordering => "an ordering policy",
            Self::Eviction => "an eviction policy",
            Self::Filter => "a filter",
            Self::Scorer => "a scorer",
            Self::Picker => "a picker",
            Self::ProfileHandler => "a profile handler",
            Self::Decider => "a disaggregation decider",
            Self::Producer => "a data producer",
            Self::Screener => "a screener",
            Self::Hook => "a request hook",
            Self::Parser => "a parser",
            Self::DataSource => "a data source",
            Self::CrossReplicaSyncer => "a cross-replica syncer",
            Self::Fairness => "a fairness policy",
            Self::UsageLimit => "a usage-limit policy",
            Self::SaturationDetector => "a saturation detector",
        }
    }

    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.with_article().split_once(' ').map_or("", |(_, word)| word)
    }
}

/// How settled a plugin type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stability {
    /// May change or go; needs `--allow-experimental-plugins`.
    Alpha,
    /// Keeps its meaning within a release line.
    Beta,
    /// Keeps its meaning.
    Stable,
}

/// What there is to know about a type before anything is made of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypeInfo {
    /// What it can be used as.
    pub kinds: &'static [Kind],
    /// Its parameters; empty means that it takes none.
    pub params: &'static [Param],
    /// How settled it is.
    pub stability: Stability,
    /// False for a type of the catalogue that this build cannot run yet.
    pub available: bool,
    /// What to use instead of a deprecated type.
    pub deprecated: Option<&'static str>,
}

/// The plugin types of a build.
pub trait Registry {
    /// What is known of a type.
    fn lookup(&self, type_name: &str) -> Option<TypeInfo>;
    /// Every known type, those not yet available included.
    fn names(&self) -> Vec<&'static str>;
}

#[cfg(test)]
mod tests;
