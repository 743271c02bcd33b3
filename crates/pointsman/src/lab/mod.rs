//! The laboratory's commands: which policy, which weights, for this traffic?
//!
//! Each reads a workload ([`setup`]), has its runs made on all cores ([`workers`]), shows how far they are ([`progress`]) and prints what they came to.

mod files;
mod inspect;
mod make;
mod progress;
pub(crate) mod race;
pub(crate) mod record;
pub(crate) mod server;
mod setup;
mod sink;
mod table;
pub(crate) mod tune;
pub(crate) mod whatif;
mod workers;

use std::io::Write as _;

use clap::Subcommand;

use crate::failure::{Exit, Failure};

/// What to do with a trace.
#[derive(Debug, Subcommand)]
pub(crate) enum Trace {
    /// Show what a trace is like: its rate, its lengths, what its prompts share
    Inspect(inspect::Inspect),
    /// Write a generated workload as a trace
    Make(make::Make),
}

/// Prints what a command came to.
fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// Runs it.
pub(crate) fn trace(command: &Trace) -> Result<Exit, Failure> {
    match command {
        Trace::Inspect(options) => inspect::run(options),
        Trace::Make(options) => make::run(options),
    }
}
