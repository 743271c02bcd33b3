//! `cargo xtask e2e`: real requests through `pointsman serve` to real engines.

mod agreement;
mod install;
mod prompts;
mod server;
mod vllm;

use anyhow::Result;
use clap::Subcommand;

use crate::report::Tally;

/// Which engine to run against.
#[derive(Subcommand)]
pub(crate) enum Target {
    /// Two vLLM CPU servers with a tiny model (installed on first use: 6 GB, 9 GB of memory while it runs)
    Vllm,
    /// Start such servers and keep them up until interrupted, to try things by hand
    Engines {
        /// How many; each takes 4.2 GB of memory
        #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
        count: u8,
    },
}

/// Runs the end-to-end checks.
pub(crate) async fn run(target: &Target) -> Result<Tally> {
    match target {
        Target::Vllm => vllm::run().await,
        Target::Engines { count } => vllm::keep_up(*count).await,
    }
}
