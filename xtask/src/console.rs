//! `cargo xtask console`: the console and `pointsman top`, seen as a person sees them: in Chromium, and in a terminal of tmux.
//!
//! The browser's side is written for Playwright (`console/e2e`); its packages are installed once per version, outside the checkout. Chromium and tmux are
//! the system's. Screenshots and logs are left under `target/console`.

mod top;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::report::{Tally, check};
use crate::{tools, workspace};

/// The version of Playwright, as `console/e2e/package.json` has it.
const PLAYWRIGHT: &str = "1.65.1";

const EXAMPLES: &str = "Examples:
  cargo xtask console
  cargo xtask console --only tuning
  cargo xtask console --pictures                take the README's pictures anew";

/// What to look at.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Run only the groups whose name holds this
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    only: String,
    /// Take the pictures of the README, and check nothing
    #[arg(long, conflicts_with = "only")]
    pictures: bool,
}

impl Options {
    pub(crate) fn standard() -> Self {
        Self { only: String::new(), pictures: false }
    }
}

/// Runs it all.
pub(crate) async fn run(options: &Options) -> Result<Tally> {
    let binary = crate::pointsman::build()?;
    let mut tally = Tally::default();
    browser(&binary, options, &mut tally)?;
    if "top".contains(&options.only) && !options.pictures {
        top::run(&binary, &mut tally).await?;
    }
    Ok(tally)
}

/// A script of `console/e2e`, ready to be run with Chromium.
pub(crate) fn script(name: &str) -> Result<Command> {
    let Some(chromium) =
        ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|c| tools::works(c, &["--version"]))
    else {
        bail!("Chromium is not installed (Debian: apt-get install chromium)");
    };
    let mut node = Command::new("node");
    node.arg(workspace::root().join("console/e2e").join(name)).env("POINTSMAN_E2E", packages()?);
    node.env("OUT", workspace::target().join("console")).env("CHROMIUM", which(chromium)?);
    Ok(node)
}

fn browser(binary: &Path, options: &Options, tally: &mut Tally) -> Result<()> {
    let mut node = script("run.mjs")?;
    node.env("POINTSMAN", binary).env("ONLY", &options.only);
    if options.pictures {
        node.env("PICTURES", workspace::root().join("docs/pictures"));
    }
    let mut node = node.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot run node")?;
    let mut counts = None;
    for line in node.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
        match line.strip_prefix("RESULT ").and_then(|rest| rest.split_once(' ')) {
            Some((passed, failed)) => counts = passed.parse::<u64>().ok().zip(failed.parse::<u64>().ok()),
            None => println!("{line}"),
        }
    }
    let status = node.wait().context("cannot wait for node")?;
    match counts {
        Some((passed, failed)) => *tally += Tally { passed, failed },
        None => check(tally, false, format!("the tests of the console came to an end ({status})")),
    }
    Ok(())
}

/// The folder with Playwright and axe, installed where they are not yet.
fn packages() -> Result<PathBuf> {
    let folder = workspace::cache()?.join(format!("console-e2e-{PLAYWRIGHT}"));
    if folder.join("complete").exists() {
        return Ok(folder);
    }
    println!("installing Playwright {PLAYWRIGHT} (12 MB, seconds) ...");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for name in ["package.json", "package-lock.json"] {
        let from = workspace::root().join("console/e2e").join(name);
        std::fs::copy(&from, folder.join(name)).with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let status = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .status()
        .context("cannot run npm; Node 20.19 or newer is needed")?;
    if !status.success() {
        bail!("npm ci failed ({status}) in {}", folder.display());
    }
    std::fs::write(folder.join("complete"), PLAYWRIGHT)?;
    Ok(folder)
}

fn which(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file());
    found.with_context(|| format!("{program} is not on the path"))
}
