//! A simulated vLLM: the engine model of [`pointsman_sim`] behind real HTTP and real time.
//!
//! It answers with text that means nothing, but *when* it answers, how long its queue is, which prompts it has cached and what its
//! metrics page says all come from the model, so a router in front of it has the same evidence as in front of a GPU. The surface,
//! the wire shapes and the metric names are those of vLLM 0.32; the flags are those of `llm-d-inference-sim`.
//!
//! ```no_run
//! # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
//! use pointsman_engine::{EngineOptions, spawn};
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let options = EngineOptions { model: "demo".into(), speed: 20.0, ..EngineOptions::default() };
//! let engine = spawn(options, listener)?;
//! println!("http://{}/v1/chat/completions", engine.addr());
//! engine.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Reading order: [`EngineOptions`] (what can be set), `core` (the model, its clock and who waits for what), `routes` (the surface),
//! `answer` (the wire shapes), `page` (the metrics).

mod adapters;
mod answer;
mod ask;
mod core;
mod error;
mod extras;
mod failures;
mod lengths;
mod metrics;
mod options;
mod page;
mod routes;
mod runtime;
mod server;
mod stream;
mod text;

pub use failures::FailureKind;
pub use options::{EngineOptions, Mode, OptionsError, StepModel, deployment, parse_duration};
pub use runtime::{ConfigError, FakeLoras, FakeMetrics};
pub use server::{EngineHandle, serve, spawn};
