//! Filter, score, pick.
//!
//! A [`Scheduler`] holds a [`ProfileHandler`] and named [`Profile`]s. A profile is a list of [`Filter`]s, a list of weighted
//! [`Scorer`]s and one [`Picker`]. For one request the router collects the [`Candidate`]s (one consistent view of the fleet), lets
//! [`Producer`]s attach [`Facts`], and calls [`Scheduler::schedule`]; what happened is kept as a [`record::Decision`].
//!
//! Everything here is pure: no I/O, no clock other than the one handed in, no allocation per candidate.

mod candidate;
mod data;
mod facts;
mod plugin;
mod profile;
pub mod record;
mod request;
mod scheduler;
mod stages;

pub use candidate::{Candidate, Scope};
pub use data::{DataKey, DataKind};
pub use facts::{
    Column, ColumnId, Columns, EncoderMatch, Fact, Facts, InFlightTokens, KvSource, LatencyPrediction, PrefixMatch,
    TextId, UncachedTokens,
};
pub use plugin::{
    AddedHeaders, Admitter, Answered, Attribute, Batcher, Chosen, Cycle, Decider, Filter, Held, Hooks, Joined, Named,
    Picker, Producer, ProfileHandler, RequestHook, ResponseHook, Scorer, Served, StagePick, Termination, Timing,
    TokenUsage, Untimed, UsageHook,
};
pub use profile::{Dropped, Profile, ProfileRun, WeightedScorer};
pub use request::{MediaItem, PromptBlocks, Request};
pub use scheduler::{Scheduled, Scheduler};
pub use stages::{Answer, Role, Stage, Stages};
