//! `pointsman man`: a manual page for each command, made from the same definitions as `--help`.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _};

use crate::cli::Cli;
use crate::failure::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  pointsman man ~/.local/share/man/man1
  pointsman man /tmp && man /tmp/pointsman-epp.1";

/// Where they go.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Man {
    /// Folder that the pages are written to; made if it is not there
    folder: PathBuf,
}

/// Writes them, and lists what was written.
pub(crate) fn run(options: &Man) -> Result<Exit, Failure> {
    let folder = &options.folder;
    let written = std::fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Cli::command(), folder));
    written.map_err(|e| Failure::new(format!("cannot write to {}", folder.display())).why(e))?;
    let mut command = Cli::command();
    command.build();
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", folder.join("pointsman.1").display())?;
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set() && c.get_name() != "help") {
        writeln!(out, "{}", folder.join(format!("pointsman-{}.1", sub.get_name())).display())?;
    }
    Ok(Exit::Fine)
}
