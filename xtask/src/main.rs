//! Project chores, run as `cargo xtask COMMAND`.
//!
//! A bird's-eye view, one file per job:
//!
//! * `test` ([`check`]): everything a change has to pass, as a list of [`report::Report`] steps; `--all` is what
//!   continuous integration runs.
//! * `e2e vllm` ([`e2e`]): two real vLLM servers behind `pointsman serve`.
//! * `replay` ([`replay`]): a slice of a public trace against simulated engines, one row per policy.
//! * `agree` ([`replay::agree`]): the simulator against processes, on the same requests.
//! * `chaos` ([`chaos`]): `kill -9` of an engine under load, and what clients saw of it.
//! * `reload` ([`reload`]): the configuration changes under load.
//! * `console` ([`console`]): the console in a browser, `pointsman top` in a terminal.
//! * `dist` ([`dist`]): what a release hands out.
//! * `bench extproc`, `soak extproc` ([`bench`]): `pointsman epp` under load, against a picker that does nothing.
//! * `bench console` ([`bench`]): the same under load, with and without somebody who looks on.
//!
//! Below them: [`process`] (children that never outlive the job), [`pointsman`] (the binary under test and its admin
//! API), [`client`] and [`completion`] (the HTTP side, seen as a client sees it), [`extproc`] (Envoy's messages).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool talks on its standard streams")]

mod bench;
mod chaos;
mod check;
mod client;
mod completion;
mod console;
mod dist;
mod e2e;
mod extproc;
mod pointsman;
mod process;
mod reload;
mod replay;
mod report;
mod sse;
mod text;
mod tools;
mod workspace;

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Project chores of Pointsman", after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "Examples:
  cargo xtask test                                      the workspace's tests, nothing beside the clone needed
  cargo xtask replay --trace conversation --limit 300   policies side by side on real arrivals";

#[derive(Subcommand)]
enum Command {
    /// Run the workspace's tests; with --all everything continuous integration checks
    Test(check::Options),
    /// Route real requests to real engines, end to end
    #[command(subcommand)]
    E2e(e2e::Target),
    /// Replay a slice of the Mooncake trace against eight simulated engines, per policy
    Replay(replay::Options),
    /// Play the same requests to the simulator and to engines behind `serve`, and compare
    Agree(replay::agree::Options),
    /// Kill an engine under 200 requests/s and check what clients saw
    Chaos(chaos::Options),
    /// Change the configuration 200 times under 500 requests/s and check that nothing is lost
    Reload(reload::Options),
    /// Look at the console in Chromium and at `pointsman top` in tmux
    Console(console::Options),
    /// Build what a release hands out: a static binary in an archive, and the image's folder
    Dist(dist::Options),
    /// Measure a transport against one that does nothing, in the same minute, or what looking on costs
    #[command(subcommand)]
    Bench(bench::Target),
    /// Keep a transport under load with aborts, and watch its memory
    #[command(subcommand)]
    Soak(bench::SoakTarget),
    /// The do-nothing picker that `bench extproc` measures against
    #[command(hide = true)]
    Echo(bench::EchoOptions),
}

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(3)
        }
    }
}

/// Runs one command; `false` means that the answer is no (something failed), an error that it could not be found out.
fn run(command: Command) -> Result<bool> {
    match command {
        Command::Test(options) => check::run(&options),
        Command::E2e(target) => alone(e2e::run(&target)),
        Command::Replay(options) => alone(replay::run(&options)),
        Command::Agree(options) => alone(replay::agree::run(&options)),
        Command::Dist(options) => dist::run(&options),
        Command::Chaos(options) => alone(chaos::run(&options)),
        Command::Reload(options) => alone(reload::run(&options)),
        Command::Console(options) => alone(console::run(&options)),
        Command::Bench(target) => bench::run(&target),
        Command::Soak(target) => bench::soak(&target),
        Command::Echo(options) => bench::echo(&options).map(|()| true),
    }
}

/// Runs a job by itself and closes with its count.
fn alone(work: impl Future<Output = Result<report::Tally>>) -> Result<bool> {
    let tally = job(work)?;
    println!("{}", tally.closing_line());
    Ok(tally.failed == 0)
}

/// Runs a job that starts processes on a runtime of one thread, which leaves the other cores to what is measured.
///
/// An interrupt drops the job, and with it every process it started, and ends the whole run: whoever interrupts one step
/// does not want the next one.
fn job(work: impl Future<Output = Result<report::Tally>>) -> Result<report::Tally> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start the runtime")?;
    let ended = runtime.block_on(async {
        let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
            .context("cannot listen for the termination signal")?;
        tokio::select! {
            done = work => done.map(Some),
            _ = tokio::signal::ctrl_c() => Ok(None),
            _ = terminate.recv() => Ok(None),
        }
    });
    // Tasks of the job may hold processes too; they go with the runtime.
    drop(runtime);
    match ended {
        Ok(None) => {
            eprintln!("interrupted; everything this job started is stopped");
            std::process::exit(130)
        }
        Ok(Some(tally)) => Ok(tally),
        Err(error) => Err(error),
    }
}
