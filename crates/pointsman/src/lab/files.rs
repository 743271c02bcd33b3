//! Traces in, reports out.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use pointsman_lab::workload::{self, ReadError, Workload};

use crate::failure::{Exit, Failure};
use crate::terminal::count;

/// Bytes that a trace may have once unpacked.
const MAX_BYTES: u64 = 8 << 30;

/// Opens a file, packed with gzip or not; `-` is standard input.
fn open(path: &Path) -> Result<impl BufRead, Failure> {
    let cannot = |e: &std::io::Error| unreadable(path, e);
    let mut input: Box<dyn BufRead> = if path == Path::new("-") {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        Box::new(BufReader::new(File::open(path).map_err(|e| cannot(&e))?))
    };
    if input.fill_buf().map_err(|e| cannot(&e))?.starts_with(&[0x1f, 0x8b]) {
        input = Box::new(BufReader::new(MultiGzDecoder::new(input)));
    }
    Ok(BufReader::new(input.take(MAX_BYTES)))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}", path.display())).why(error).exit(Exit::Usage)
}

/// What is wrong with a file, and where in it.
fn wrong(path: &Path, error: &ReadError) -> Failure {
    let shown = path.display();
    match error {
        ReadError::Line { line, what } => Failure::usage(format!("{shown}:{line}: {what}")),
        ReadError::Io { line: 1, error } => unreadable(path, error),
        ReadError::Io { line, error } => Failure::usage(format!("{shown}:{line}: cannot be read on"))
            .why(error)
            .next("the file is cut or damaged: fetch it again (`gzip -t` tests a packed one), or take its head"),
        ReadError::Decisions { line } => Failure::usage(format!("{shown}:{line}: this is a decision log, not a trace"))
            .next(format!("convert it: pointsman record --from {shown} --out recording.jsonl")),
        ReadError::Empty { .. } => {
            Failure::usage(format!("{shown}: {error}")).next("give one with at least one request")
        }
        ReadError::TooLong => Failure::usage(format!("{shown}: {error}")).next("take a part of it: head -n 100000"),
    }
}

/// Hands over each line that is not empty, until told to end.
///
/// # Errors
/// The first line that is found wrong, with its number.
pub(super) fn lines(path: &Path, take: &mut dyn FnMut(&str) -> Result<bool, LineError>) -> Result<(), Failure> {
    for line in workload::lines(open(path)?) {
        let (number, line) = line.map_err(|e| wrong(path, &e))?;
        match take(&line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(LineError::Wrong(what)) => {
                let next = format!("mend that line, or leave it out: sed {number}d {}", path.display());
                return Err(wrong(path, &ReadError::Line { line: number, what }).next(next));
            }
            Err(LineError::Other(failure)) => return Err(failure),
        }
    }
    Ok(())
}

/// Why a line was not taken.
pub(super) enum LineError {
    /// Something is wrong with it.
    Wrong(String),
    /// It was none of its doing.
    Other(Failure),
}

impl From<String> for LineError {
    fn from(what: String) -> Self {
        Self::Wrong(what)
    }
}

impl From<Failure> for LineError {
    fn from(failure: Failure) -> Self {
        Self::Other(failure)
    }
}

/// Reads a trace, packed with gzip or not; `-` is standard input.
pub(super) fn trace(path: &Path) -> Result<Workload, Failure> {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.trim_end_matches(".gz").trim_end_matches(".jsonl").trim_end_matches(".csv");
    let workload = workload::read(name, open(path)?, None).map_err(|error| {
        let failure = wrong(path, &error);
        if matches!(error, ReadError::Line { .. }) {
            return failure.next("one request per line: {\"timestamp\": ms, \"input_length\": tokens, \"output_length\": tokens, \"hash_ids\": [..]}, or CSV with a header");
        }
        failure
    })?;
    if workload.unanswered > 0 {
        let rows = count(workload.unanswered as u64, "row");
        let _ =
            writeln!(std::io::stderr(), "{}: {rows} left out: no answer tokens, the request failed", path.display());
    }
    Ok(workload)
}

/// Whether both paths lead to the same file.
pub(super) fn same(one: &Path, other: &Path) -> bool {
    one != Path::new("-") && one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
}

/// A file for what a long job will come to. That it can be written is found out before the job begins.
pub(super) struct Document<'a> {
    path: &'a Path,
    /// What is written first and then put in the place of a plain file; a device is written as it is.
    part: PathBuf,
}

impl<'a> Document<'a> {
    /// Claims the place.
    pub(super) fn at(path: &'a Path) -> Result<Self, Failure> {
        let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let mut part = real.clone().into_os_string();
        let plain = std::fs::metadata(&real).map_or(true, |meta| meta.is_file());
        if plain {
            part.push(".part");
        }
        let document = Self { path, part: part.into() };
        let file = File::options().write(true).create(plain).truncate(plain).open(&document.part);
        file.map(|_| document).map_err(|e| cannot_write(path, &e))
    }

    /// Writes it, whole or not at all.
    pub(super) fn write(self, text: &str) -> Result<(), Failure> {
        let write = || {
            let mut file = File::options().write(true).open(&self.part)?;
            file.write_all(text.as_bytes())?;
            file.flush()?;
            let real = self.path.canonicalize().unwrap_or_else(|_| self.path.to_owned());
            if self.part == real {
                return Ok(());
            }
            file.sync_all()?;
            std::fs::rename(&self.part, real)
        };
        let written: std::io::Result<()> = write();
        written.map_err(|e| cannot_write(self.path, &e))
    }
}

impl Drop for Document<'_> {
    fn drop(&mut self) {
        if self.part.extension().is_some_and(|extension| extension == "part") {
            // After a rename there is nothing left to remove.
            let _ = std::fs::remove_file(&self.part);
        }
    }
}

/// That a file could not be written, and what to do.
pub(super) fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot write {}", path.display())).why(error).next("free some space or name another file")
}
