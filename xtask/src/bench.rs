//! `cargo xtask bench extproc`, `cargo xtask bench console` and `cargo xtask soak extproc`: a picker under load, every answer checked.
//!
//! A load generator speaks ext-proc as Envoy does and measures two servers in turn, each alone on a processor while the
//! generator and the engines have another: a do-nothing [`echo`] on tonic, which is the limit, and `pointsman epp`.
//! Reading order: [`rows`] (what is measured), [`measure`] (one measurement), [`load`], [`events`] and [`exchange`] (what
//! is sent and how answers are checked), [`stream`] (HTTP/2 with Envoy's windows), [`table`] (what is printed). [`console`] has the same load with people
//! who look on.

mod console;
mod echo;
mod engines;
mod events;
mod exchange;
mod fetch;
mod load;
mod machine;
mod measure;
mod pace;
mod rows;
mod samples;
mod script;
mod soak;
mod stream;
mod subject;
mod table;

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};

use self::machine::Cores;
use self::subject::{Bench, Server};
use crate::report::Tally;
use crate::{pointsman, workspace};

pub(crate) use self::echo::{Options as EchoOptions, run as echo};
pub(crate) use self::machine::resident_memory;

/// What to measure.
#[derive(Subcommand)]
pub(crate) enum Target {
    /// `pointsman epp` as Envoy loads it
    Extproc(Options),
    /// What the console costs the process it looks into, and what its page costs the browser
    Console(console::Options),
}

/// What to keep under load.
#[derive(Subcommand)]
pub(crate) enum SoakTarget {
    /// `pointsman epp` at half of its maximum rate, with requests given up in every phase
    Extproc(soak::Options),
}

const EXAMPLES: &str = "Examples:
  cargo xtask bench extproc                                  everything, five rounds (some 20 minutes)
  cargo xtask bench extproc --quick                          everything once, briefly: does it work at all?
  cargo xtask bench extproc --only 1k --only events          two loads, five rounds
  cargo xtask bench extproc --server epp --only 220k --seconds 60
                                                             keep one server loaded, to look at with a profiler
  cargo xtask bench extproc --subject echo-one-thread        another server against the echo";

/// How to measure.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Rounds, in which the two servers take turns; figures are the medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of each load
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// One round of short loads, which shows that everything works but no reliable figure
    #[arg(long)]
    quick: bool,
    /// Measure this load only; may be repeated
    #[arg(long, value_name = "ROW", value_parser = rows::names())]
    only: Vec<String>,
    /// The server compared with the echo
    #[arg(long, value_enum, default_value_t = Server::Epp)]
    subject: Server,
    /// Keep the loads on this server alone and say its process id
    #[arg(long, value_enum, conflicts_with_all = ["rounds", "quick", "subject"])]
    server: Option<Server>,
    /// HTTP/2 connections to the server; Envoy has one per worker thread
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// A further flag for `pointsman epp`; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    epp_flag: Vec<String>,
}

/// Measures and prints; `false` when an answer was wrong.
pub(crate) fn run(target: &Target) -> Result<bool> {
    if cfg!(debug_assertions) {
        return again_in_release();
    }
    let tally = match target {
        Target::Extproc(options) => {
            let uses_epp = options.server.unwrap_or(options.subject) == Server::Epp;
            let bench = prepare("bench", uses_epp, &options.epp_flag)?;
            crate::job(measure::run(&bench, options))?
        }
        Target::Console(options) => {
            let bench = prepare("bench", true, &[])?;
            crate::job(console::run(bench, options))?
        }
    };
    Ok(tally.failed == 0)
}

/// Keeps the load on; `false` when a check failed.
pub(crate) fn soak(SoakTarget::Extproc(options): &SoakTarget) -> Result<bool> {
    if cfg!(debug_assertions) {
        return again_in_release();
    }
    let bench = prepare("soak", options.server == Server::Epp, &options.epp_flag)?;
    let tally: Tally = crate::job(soak::run(&bench, options))?;
    println!("{}", tally.closing_line());
    Ok(tally.failed == 0)
}

/// Builds what is measured, and puts engines and this thread on their processor.
fn prepare(job: &str, uses_epp: bool, epp_flags: &[String]) -> Result<Bench> {
    let pointsman = uses_epp.then(pointsman::build).transpose()?;
    let cores = Cores::two()?;
    machine::bind(cores.load)?;
    let folder = workspace::scratch(job)?;
    let engines = engines::Engines::start()?;
    Ok(Bench { cores, engines, pointsman, folder, epp_flags: epp_flags.to_vec() })
}

/// A generator built without optimisation would measure itself.
fn again_in_release() -> Result<bool> {
    eprintln!("building target/release/xtask ...");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--package", "xtask"])
        .current_dir(workspace::root())
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("the release build of xtask failed");
    }
    let binary: PathBuf = workspace::target().join("release/xtask");
    // Only comes back when it could not start.
    let error = Command::new(&binary).args(std::env::args_os().skip(1)).exec();
    Err(error).with_context(|| format!("cannot run {}", binary.display()))
}

impl Options {
    /// Seconds of a load, as a duration.
    fn time(&self) -> Duration {
        Duration::from_secs(if self.quick { self.seconds.min(2) } else { self.seconds })
    }

    fn rounds(&self) -> u32 {
        if self.quick { 1 } else { self.rounds }
    }
}
