//! The engine model of the laboratory: block pool, prefix cache, batching and timing, as pure code.
//!
//! [`Engine`] is one inference server as a router sees it: requests wait, are admitted into a batch, find part of their prompt in
//! the prefix cache, are computed step by step, emit tokens, finish and leave their blocks behind. It is a value: it reads no
//! clock and spawns nothing. Whoever owns it says what time it is ([`Engine::submit`], [`Engine::advance`]) and is told when to come
//! back ([`Engine::next_event`]), so one model serves a discrete-event simulation, a property test and an HTTP server in real time.
//!
//! Two choices where models differ: a prompt's blocks become findable when they are computed, not when the request starts, and blocks of
//! generated tokens stay cached under keys of their own, so they age like real ones but no later prompt meets them. Times of the
//! API process other than [`EngineConfig::api_overhead`] are not modelled.
//!
//! * [`BlockPool`]: KV blocks with reference counts, keys and the LRU order in which idle ones are given up.
//! * [`Timing`]: how long things take. [`StepCosts`] computes a batched step from a model and its hardware; [`Latency`] draws
//!   constant or per-token latencies as fake servers usually do.
//! * [`EngineConfig::coalesce`]: steps that only decode are one jump in closed form, which changes no time and no event but their number.
//! * [`Leg`]: a prompt computed by one engine and decoded by another.
//! * [`Profile`]: named deployments with their cache capacity (`8b-h100`, `70b-4xh100`, `qwen3-32b-2xh100`).
//!
//! ```
//! use pointsman_core::Nanos;
//! use pointsman_sim::{Engine, EngineConfig, Profile, Request, Timing};
//!
//! let profile = Profile::named("8b-h100").expect("a known profile");
//! let config = EngineConfig { blocks: profile.blocks, ..EngineConfig::default() };
//! let mut engine = Engine::new(config, Timing::Step(profile.costs()));
//! engine.submit(Nanos(0), Request { id: 1, prompt_tokens: 1_000, output_tokens: 10, ..Request::default() }).expect("room");
//! let mut events = Vec::new();
//! while let Some(at) = engine.next_event() {
//!     engine.advance(at, &mut events);
//! }
//! assert_eq!(events.last().map(|e| e.at.0 / 1_000_000), Some(88));
//! ```

mod admission;
mod engine;
#[cfg(test)]
mod invariants;
mod latency;
mod legs;
mod pool;
mod profile;
mod rng;
mod run;
mod sequence;
mod steps;
mod timing;
mod unbatched;

pub use engine::{Engine, EngineConfig, Event, Request, Stats, SubmitError, What};
pub use latency::{Latency, LatencyCalculator};
pub use legs::Leg;
pub use pool::{BlockPool, PoolBlock};
pub use profile::{Fit, Hardware, Model, Profile};
pub use rng::Rng;
pub use timing::{StepCosts, StepShape, Timing};
