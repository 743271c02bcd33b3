//! Traces in, reports out.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use pointsman_lab::workload::{ReadError, Workload, read};

use crate::failure::{Exit, Failure};

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

/// Hands over each line that is not empty, until told to end.
///
/// # Errors
/// The first line that is found wrong, with its number.
pub(super) fn lines(path: &Path, take: &mut dyn FnMut(&str) -> Result<bool, String>) -> Result<(), Failure> {
    for (at, line) in open(path)?.lines().enumerate() {
        let line = line.map_err(|e| unreadable(path, &e))?;
        if line.trim().is_empty() {
            continue;
        }
        match take(&line) {
            Ok(true) => {}
            Ok(false) => break,
            Err(what) => return Err(Failure::usage(format!("{}:{}: {what}", path.display(), at + 1))),
        }
    }
    Ok(())
}

/// Reads a trace, packed with gzip or not; `-` is standard input.
pub(super) fn trace(path: &Path) -> Result<Workload, Failure> {
    let shown = path.display();
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.trim_end_matches(".gz").trim_end_matches(".jsonl").trim_end_matches(".csv");
    read(name, open(path)?, None).map_err(|error| match &error {
        ReadError::Line { line, what } => Failure::usage(format!("{shown}:{line}: {what}"))
            .next("one request per line: {\"timestamp\": ms, \"input_length\": tokens, \"output_length\": tokens, \"hash_ids\": [..]}, or CSV with a header"),
        ReadError::Io(e) => unreadable(path, e),
        _ => Failure::usage(format!("{shown}: {error}")).next("give a trace with at least one request"),
    })
}

/// Writes a document, whole or not at all.
pub(super) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let cannot = |e: std::io::Error| {
        Failure::new(format!("cannot write {}", path.display())).why(e).next("free some space or name another file")
    };
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = Path::new(&part);
    let written = File::create(part).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    if let Err(error) = written.and_then(|()| std::fs::rename(part, path)) {
        let _ = std::fs::remove_file(part);
        return Err(cannot(error));
    }
    Ok(())
}
