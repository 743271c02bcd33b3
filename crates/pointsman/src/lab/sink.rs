//! The recording that grows, and what is said of it meanwhile.

use std::fmt::Display;
use std::fs::File;
use std::io::{BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

use pointsman_lab::recording::Recorded;
use serde_json::Value;

use super::files::{self, LineError};
use crate::failure::Failure;
use crate::terminal::count;

/// Where decisions go. What was there before is replaced by the first.
pub(super) struct Sink {
    path: PathBuf,
    /// `None`: standard output.
    file: Option<File>,
    out: BufWriter<Box<dyn Write>>,
    /// Made for this recording: without one it goes again.
    new: bool,
    begin: Option<u64>,
    written: u64,
    /// Of these, without hashes of their blocks.
    unhashed: u64,
    /// Turned away before there was a candidate.
    turned_away: u64,
    live: bool,
}

impl Sink {
    /// Finds out whether the place can be written, and leaves it as it is.
    pub(super) fn at(path: &Path) -> Result<Self, Failure> {
        let cannot = |e: std::io::Error| files::cannot_write(path, &e);
        let new = !path.exists();
        let (file, out): (_, Box<dyn Write>) = if path == Path::new("-") {
            (None, Box::new(std::io::stdout()))
        } else {
            let file = File::options().write(true).create(true).truncate(false).open(path).map_err(cannot)?;
            (Some(file.try_clone().map_err(cannot)?), Box::new(file))
        };
        let (path, live) = (path.to_owned(), std::io::stderr().is_terminal());
        let new = new && file.is_some();
        let out = BufWriter::new(out);
        Ok(Self { path, file, out, new, begin: None, written: 0, unhashed: 0, turned_away: 0, live })
    }

    /// What a person calls the place.
    pub(super) fn name(&self) -> String {
        if self.file.is_some() { self.path.display().to_string() } else { "standard output".to_owned() }
    }

    /// Decisions in it.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    /// Writes a decision, as a log or a running Pointsman has it, if it had candidates.
    pub(super) fn take(&mut self, decision: &Value) -> Result<(), LineError> {
        let Some(recorded) = Recorded::of(decision, &mut self.begin)? else {
            self.turned_away += 1;
            return Ok(());
        };
        if self.written == 0 {
            self.empty().map_err(|e| self.cannot_write(e))?;
        }
        let line = serde_json::to_string(&recorded).map_err(|e| e.to_string())?;
        writeln!(self.out, "{line}").map_err(|e| self.cannot_write(e))?;
        self.written += 1;
        if decision.get("block_hashes").is_none() {
            if self.unhashed == 0 {
                say(
                    "no block hashes: what prompts share is not recorded. Start the Pointsman with --record-block-hashes",
                );
            }
            self.unhashed += 1;
        }
        Ok(())
    }

    /// Takes away what a plain file held.
    fn empty(&self) -> std::io::Result<()> {
        match &self.file {
            Some(file) if file.metadata()?.is_file() => file.set_len(0),
            _ => Ok(()),
        }
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        self.out.flush().map_err(|e| self.cannot_write(e))
    }

    fn cannot_write(&self, error: std::io::Error) -> Failure {
        if self.file.is_some() { files::cannot_write(&self.path, &error) } else { error.into() }
    }

    /// Shows how much there is, on a terminal.
    pub(super) fn count(&self) {
        if self.live {
            let _ = write!(std::io::stderr(), "\r{}\x1b[K", count(self.written, "decision"));
        }
    }

    /// Says what there is.
    pub(super) fn sum_up(&self) {
        match self.written {
            0 => say(format_args!("there were no decisions: {} is as it was", self.name())),
            n => say(format_args!("{} in {}", count(n, "decision"), self.name())),
        }
        if self.unhashed > 0 {
            say(format_args!("{} had no block hashes", count(self.unhashed, "decision")));
        }
        if self.turned_away > 0 {
            say(format_args!(
                "{} left out: turned away before there was an endpoint to choose",
                count(self.turned_away, "request")
            ));
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if self.new && self.written == 0 {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// A line of talk. It takes the place of the count, if that is there.
pub(super) fn say(text: impl Display) {
    let mut stderr = std::io::stderr();
    let over = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    let _ = writeln!(stderr, "{over}{text}");
}
