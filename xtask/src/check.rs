//! `cargo xtask test`: what a change has to pass.
//!
//! Without `--all` only what needs nothing beside the clone and the crates it locks: the tests. With it, everything that
//! continuous integration runs, the slow end-to-end jobs included. Every step runs, even after a failed one.

mod fuzz;
mod libtest;

use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::report::{Outcome, Report, Tally};
use crate::{chaos, console, e2e, reload, replay, tools, workspace};

/// How much to check.
#[derive(Args)]
pub(crate) struct Options {
    /// Also formatting, lints, licences, real engines, an engine killed under load, and a short fuzz run
    #[arg(long)]
    all: bool,
}

/// Runs the steps, prints the table; `false` when anything failed.
pub(crate) fn run(options: &Options) -> Result<bool> {
    let mut report = Report::default();
    if options.all {
        report.step("format", || one(cargo(&["fmt", "--all", "--check"])));
        report.step("lints", || {
            one(cargo(&["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))
        });
        report.step("licences", || {
            let deny = tools::cargo_deny()?;
            one(Command::new(deny).args(["--all-features", "check", "licenses", "bans", "sources"]))
        });
    }
    report.step("tests", || libtest::run(&mut cargo(&["test", "--workspace", "--no-fail-fast"])).map(Outcome::Ran));
    if options.all {
        report.step("release build", || crate::pointsman::build().map(|_| Outcome::Ran(Tally::one(true))));
        // The full count of BR-50 takes minutes without optimisation.
        report.step("index memory", || {
            libtest::run(&mut optimised("pointsman-prefix", "bounded_memory")).map(Outcome::Ran)
        });
        report
            .step("published figures", || libtest::run(&mut optimised("pointsman-lab", "published")).map(Outcome::Ran));
        report.step("chaos", || job(chaos::run(&chaos::Options::standard())));
        report.step("reload", || job(reload::run(&reload::Options::standard())));
        report.step("console", || job(console::run(&console::Options::standard())));
        report.step("replay", || job(replay::run(&replay::Options::smoke())));
        report.step("agree", || job(replay::agree::run(&replay::agree::Options::standard())));
        report.step("e2e vllm", || job(e2e::run(&e2e::Target::Vllm)));
        report.step("e2e envoy", || job(e2e::run(&e2e::Target::Envoy { only: String::new() })));
        report.step("fuzz", fuzz::smoke);
    }
    Ok(report.close().failed == 0)
}

/// All tests of a file, also those that take minutes without optimisation.
fn optimised(package: &str, test: &str) -> Command {
    cargo(&["test", "--release", "-p", package, "--test", test, "--", "--include-ignored"])
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(args);
    command
}

/// A command that is one check: its exit code says whether it held.
fn one(mut command: impl std::borrow::BorrowMut<Command>) -> Result<Outcome> {
    let command = command.borrow_mut().current_dir(workspace::root());
    let status = command.status().with_context(|| format!("cannot run {command:?}"))?;
    Ok(Outcome::Ran(Tally::one(status.success())))
}

/// A job with its own checks.
fn job(work: impl Future<Output = Result<Tally>>) -> Result<Outcome> {
    crate::job(work).map(Outcome::Ran)
}
