//! A few seconds on every fuzz target, where the tools for it are installed.

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::report::{Outcome, Tally};
use crate::{tools, workspace};

/// Seconds per target: enough to notice a target that no longer builds or fails at once, no more.
const SECONDS: u32 = 10;

/// Runs every target for a moment; skipped where nightly Rust or cargo-fuzz is missing.
pub(super) fn smoke() -> Result<Outcome> {
    let folder = workspace::root().join("fuzz");
    if !folder.join("Cargo.toml").exists() {
        return Ok(Outcome::Skipped("there is no fuzz folder".into()));
    }
    if !tools::works("cargo", &["+nightly", "fuzz", "--version"]) {
        return Ok(Outcome::Skipped("nightly Rust with cargo-fuzz is not installed".into()));
    }
    let list = cargo_fuzz(&["list"]).output().context("cannot list the fuzz targets")?;
    if !list.status.success() {
        bail!("cargo fuzz list failed: {}", String::from_utf8_lossy(&list.stderr));
    }
    let mut tally = Tally::default();
    for target in String::from_utf8_lossy(&list.stdout).lines().map(str::trim).filter(|line| !line.is_empty()) {
        println!("fuzzing {target} for {SECONDS} s");
        let limit = format!("-max_total_time={SECONDS}");
        let found = format!("fuzz/corpus/{target}");
        std::fs::create_dir_all(workspace::root().join(&found)).with_context(|| format!("cannot make {found}"))?;
        let mut run = cargo_fuzz(&["run", target, &found]);
        run.args(seeds(target)).args(["--", &limit]);
        let status = run.status().context("cannot run cargo fuzz")?;
        tally += Tally::one(status.success());
    }
    Ok(Outcome::Ran(tally))
}

/// Folders of inputs to begin with.
fn seeds(target: &str) -> &'static [&'static str] {
    match target {
        "compile" | "document" => &["crates/plugins/tests/configs"],
        "endpoints" => &["crates/plugins/tests/configs/endpoints"],
        _ => &[],
    }
}

fn cargo_fuzz(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).args(args).current_dir(workspace::root());
    command
}
