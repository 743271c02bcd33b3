//! `pointsman`: the endpoint picker for LLM inference, as one program.
//!
//! This crate only puts things together: [`serve`] makes a pool, the sources that feed it, the gateway and the admin listener; the other
//! commands are clients of that admin listener ([`explain`], [`status`], [`top`], [`drain`]), or need no running Pointsman ([`check`], [`engine`]).
//! Data goes to stdout, talk to stderr; how a command ends is in [`failure::Exit`].

mod admin_client;
mod catalogue;
mod check;
mod cli;
mod decision_log;
mod drain;
mod engine;
mod epp;
mod explain;
mod failure;
mod lab;
mod listen;
mod logging;
mod man;
mod preset;
mod reload;
mod serve;
#[cfg(test)]
mod snapshot;
mod status;
mod telemetry;
mod terminal;
mod top;
mod wiring;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use cli::{Cli, Command};
use failure::{Exit, Failure};

/// Bodies of all sizes come and go on many threads; the system's allocator keeps what such a load fragments.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse_from(arguments()) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are what was asked for, anything else is wrong use.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Fine };
            let _ = error.print();
            return exit.into();
        }
    };
    match run(cli.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if failure.exit != Exit::Fine {
                let _ = writeln!(std::io::stderr(), "{failure}");
            }
            failure.exit.into()
        }
    }
}

/// The command line. Invoked as `epp`, by a link or a copy of that name, the process is `pointsman epp`: that is what images and charts call.
fn arguments() -> impl Iterator<Item = OsString> {
    let mut given = std::env::args_os();
    let own = given.next().unwrap_or_default();
    let is_epp = Path::new(&own).file_name().is_some_and(|name| name == "epp");
    let (own, epp) = if is_epp { ("pointsman".into(), Some("epp".into())) } else { (own, None) };
    std::iter::once(own).chain(epp).chain(given)
}

fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Serve(options) => serve::run(*options),
        Command::Epp(options) => epp::run(*options),
        Command::Explain(options) => explain::run(&options),
        Command::Status(options) => status::run(&options),
        Command::Top(options) => top::run(&options),
        Command::Drain(options) => drain::run(&options, true),
        Command::Undrain(options) => drain::run(&options, false),
        Command::Check(options) => check::run(&options),
        Command::Plugins(options) => catalogue::plugins(&options),
        Command::Schema(options) => catalogue::schema(&options),
        Command::Preset(options) => preset::run(&options),
        Command::Engine(options) => engine::run(*options),
        Command::Race(options) => lab::race::run(&options),
        Command::Tune(options) => lab::tune::run(&options),
        Command::Record(options) => lab::record::run(&options),
        Command::Whatif(options) => lab::whatif::run(&options),
        Command::Trace { command } => lab::trace(&command),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "pointsman", &mut script);
            std::io::stdout().lock().write_all(&script)?;
            Ok(Exit::Fine)
        }
        Command::Man(options) => man::run(&options),
        Command::Version => {
            writeln!(std::io::stdout().lock(), "pointsman {}", env!("CARGO_PKG_VERSION"))?;
            Ok(Exit::Fine)
        }
    }
}
