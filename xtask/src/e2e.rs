//! `cargo xtask e2e`: real requests, through `pointsman serve` to real engines, and through a real Envoy and `pointsman epp`.

mod agreement;
mod envoy;
mod install;
mod prompts;
mod server;
mod vllm;

use anyhow::Result;
use clap::Subcommand;

use crate::report::Tally;

const EXAMPLES: &str = "Examples:
  cargo xtask e2e vllm
  cargo xtask e2e envoy
  cargo xtask e2e envoy --only disconnects";

/// Which real component to run against.
#[derive(Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Target {
    /// Two vLLM CPU servers with a tiny model (installed on first use: 6 GB, 9 GB of memory while it runs)
    Vllm,
    /// Envoy 1.40 before `pointsman epp` and simulated engines (installed on first use: 128 MB)
    Envoy {
        /// Run only the groups whose name holds this
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        only: String,
    },
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
        Target::Envoy { only } => envoy::run(only).await,
        Target::Engines { count } => vllm::keep_up(*count).await,
    }
}
