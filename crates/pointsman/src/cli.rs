//! The commands.

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::catalogue::{Plugins, Schema};
use crate::check::Check;
use crate::drain::{DRAIN_EXAMPLES, Drain, UNDRAIN_EXAMPLES};
use crate::engine::Engine;
use crate::epp::Epp;
use crate::explain::Explain;
use crate::lab::Trace;
use crate::lab::race::Race;
use crate::lab::record::Record;
use crate::lab::tune::Tune;
use crate::lab::whatif::Whatif;
use crate::man::Man;
use crate::preset;
use crate::serve::Serve;
use crate::status::Status;
use crate::top::Top;

const EXAMPLES: &str = "\
Examples:
  pointsman serve
  pointsman explain last";

/// Sends each LLM request to the engine that will finish it soonest, and shows why.
#[derive(Debug, Parser)]
#[command(name = "pointsman", version, before_help = EXAMPLES, max_term_width = 110)]
#[command(after_help = "Exit codes: 0 fine, 1 the answer is no, 2 wrong use, 3 could not do it.")]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the gateway: route requests to engines (or, without any, to simulated ones)
    Serve(Box<Serve>),
    /// Run the Endpoint Picker that Envoy asks, in the place of llm-d's
    Epp(Box<Epp>),
    /// Show why a request went where it went
    Explain(Explain),
    /// Show the endpoints and what is known of them
    Status(Status),
    /// Watch the fleet and the newest decisions in a terminal
    Top(Top),
    /// Take an endpoint out: it gets no new requests
    #[command(before_help = DRAIN_EXAMPLES)]
    Drain(Drain),
    /// Take a drained endpoint back in
    #[command(before_help = UNDRAIN_EXAMPLES)]
    Undrain(Drain),
    /// Find every fault of a configuration
    Check(Check),
    /// Show which plugins there are, and everything about one
    Plugins(Plugins),
    /// Print the JSON Schema of a configuration, for editors
    Schema(Schema),
    /// Print a configuration to begin with
    Preset(preset::Print),
    /// Run a simulated vLLM
    Engine(Box<Engine>),
    /// Let routing policies race on simulated engines
    Race(Box<Race>),
    /// Find the weights for a workload, and whether they matter
    Tune(Box<Tune>),
    /// Record the decisions of a running Pointsman, as a trace to replay
    Record(Record),
    /// Decide recorded requests again, by another configuration
    Whatif(Whatif),
    /// Look at a trace of requests, or make one
    #[command(
        before_help = "Examples:\n  pointsman trace inspect requests.jsonl\n  pointsman trace inspect --json requests.jsonl"
    )]
    Trace {
        #[command(subcommand)]
        command: Trace,
    },
    /// Print a completion script
    #[command(
        before_help = "Examples:\n  pointsman completions bash > ~/.local/share/bash-completion/completions/pointsman\n  pointsman completions fish | source"
    )]
    Completions {
        /// For which shell
        shell: Shell,
    },
    /// Write a manual page for each command
    Man(Man),
    /// Print the version
    #[command(before_help = "Examples:\n  pointsman version\n  pointsman --version")]
    Version,
}
