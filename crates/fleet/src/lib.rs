//! Endpoints, their live engine state and in-flight load: pure data, one writer side, many readers.
//!
//! A [`Fleet`] is one pool of engines. Discovery writes [`EndpointMeta`] into it; readers take a [`Snapshot`], a
//! consistent list behind an atomic pointer, and walk it without a lock. Everything that changes while an [`Endpoint`]
//! lives hangs off it and is written behind the snapshot's back: what its engine says about itself ([`EngineState`],
//! read once per request as an [`EngineView`]), what this process has sent there and not seen end ([`Load`]), whether
//! it may be chosen ([`Health`]).
//!
//! Endpoints have dense [slots](pointsman_core::Slot), so that other crates keep per-endpoint columns in plain
//! vectors. A slot is handed out again only when the listeners heard of the removal and nobody holds the old endpoint
//! any more: a request that ends late can never write into its successor's column.
//!
//! Deliberately absent: any I/O, any opinion about which endpoint is better, any rule on what a missing signal is
//! worth.

mod endpoint;
mod engine;
mod health;
mod labels;
mod load;
mod lora;
mod meta;
mod pool;
mod snapshot;

pub use endpoint::Endpoint;
pub use engine::{EngineState, EngineView, Scraped, attribute_key};
pub use health::{Condition, Health, HealthReport};
pub use labels::Labels;
pub use load::Load;
pub use lora::LoraInfo;
pub use meta::{EndpointMeta, Scheme};
pub use pool::{Change, Fleet, FleetEvent, Listener};
pub use snapshot::{Directory, Snapshot};
