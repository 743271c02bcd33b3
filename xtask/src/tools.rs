//! Cargo tools that a check needs, installed by version where they are missing.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::workspace;

/// The version whose rules `deny.toml` is written for.
const CARGO_DENY: &str = "0.20.2";

/// The path of cargo-deny, compiled into the cache outside the checkout on first use (minutes).
pub(crate) fn cargo_deny() -> Result<PathBuf> {
    let root = workspace::cache()?.join(format!("cargo-deny-{CARGO_DENY}"));
    let binary = root.join("bin/cargo-deny");
    if !binary.exists() {
        println!("compiling cargo-deny {CARGO_DENY} (once, some minutes) ...");
        let status = Command::new(env!("CARGO"))
            .args(["install", "cargo-deny", "--locked", "--quiet", "--version", CARGO_DENY, "--root"])
            .arg(&root)
            .status()
            .context("cannot run cargo install")?;
        if !status.success() {
            bail!("cargo install cargo-deny failed ({status})");
        }
    }
    Ok(binary)
}

/// Whether a command runs and succeeds.
pub(crate) fn works(program: &str, args: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
