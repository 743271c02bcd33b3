//! Traces from outside: which format, and what is wrong in which line.

use std::io::{BufRead, Read as _};

use super::{MOST_IDS, Workload, mooncake, table};

/// Requests that a trace may have.
pub(super) const MOST_REQUESTS: usize = 5_000_000;

/// How a trace is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON Lines `{timestamp, input_length, output_length, hash_ids}`, ids of 512 tokens or of `block_tokens`. What `pointsman record` writes.
    Jsonl,
    /// CSV with a header: Azure (`TIMESTAMP,ContextTokens,GeneratedTokens`) or BurstGPT (`Timestamp,Model,Request tokens,Response tokens,..`).
    Csv,
}

/// Why a trace cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A line that cannot be understood.
    #[error("line {line}: {what}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// It cannot be read to its end.
    #[error("line {line}: {error}")]
    Io {
        /// Where, from 1.
        line: usize,
        /// Why.
        error: std::io::Error,
    },
    /// Nothing to do.
    #[error("the trace has no requests")]
    Empty,
    /// More than can be held.
    #[error("the trace has more than {MOST_REQUESTS} requests or {MOST_IDS} blocks")]
    TooLong,
}

/// Bytes that a line may have.
const MOST_LINE: u64 = 256 << 20;

/// Lines that are not empty, with their numbers from 1.
pub fn lines(mut input: impl BufRead) -> impl Iterator<Item = Result<(usize, String), ReadError>> {
    let mut number = 0;
    let mut over = false;
    std::iter::from_fn(move || {
        while !over {
            number += 1;
            let mut bytes = Vec::new();
            let read = input.by_ref().take(MOST_LINE + 1).read_until(b'\n', &mut bytes);
            let wrong = |what: String| Some(Err(ReadError::Line { line: number, what }));
            match read {
                Ok(0) => return None,
                Ok(n) if n as u64 > MOST_LINE => {
                    over = true;
                    return wrong(format!("longer than {} MiB", MOST_LINE >> 20));
                }
                Ok(_) => {}
                Err(error) => {
                    over = true;
                    return Some(Err(ReadError::Io { line: number, error }));
                }
            }
            let Ok(text) = String::from_utf8(bytes) else { return wrong("not UTF-8".into()) };
            let line = text.trim_start_matches('\u{feff}').trim();
            if !line.is_empty() {
                return Some(Ok((number, line.to_owned())));
            }
        }
        None
    })
}

/// Reads a trace; arrivals are counted from the first. Without `format` its first character tells: `{` begins JSON.
///
/// # Errors
/// The first line that is wrong, a trace without requests, or one that cannot be read.
pub fn read(name: &str, input: impl BufRead, format: Option<Format>) -> Result<Workload, ReadError> {
    let mut requests = Vec::new();
    let mut ids = 0;
    let mut columns = None;
    let mut json = format.map(|format| format == Format::Jsonl);
    for line in lines(input) {
        let (number, line) = line?;
        let wrong = |what| ReadError::Line { line: number, what };
        let request = if *json.get_or_insert(line.starts_with('{')) {
            Some(mooncake::line(&line, number).map_err(wrong)?)
        } else {
            match &columns {
                None => {
                    columns = Some(table::Columns::of(&line).map_err(wrong)?);
                    None
                }
                Some(columns) => columns.line(&line, number).map_err(wrong)?,
            }
        };
        ids += request.as_ref().map_or(0, |(_, request)| request.prompt.ids.len());
        requests.extend(request);
        if requests.len() > MOST_REQUESTS || ids > MOST_IDS {
            return Err(ReadError::TooLong);
        }
    }
    let Some(begin) = requests.iter().map(|(at, _)| *at).min() else { return Err(ReadError::Empty) };
    let from_begin = requests.into_iter().map(|(at, mut request)| {
        request.when = super::When::At(pointsman_core::Nanos(at - begin));
        request
    });
    Ok(Workload::new(name, from_begin.collect()))
}

/// Seconds as nanoseconds, within what a trace may span (30 years).
pub(super) fn nanos(seconds: f64) -> Option<u64> {
    (seconds.is_finite() && (0.0..1e9).contains(&seconds)).then_some((seconds * 1e9) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_told_by_their_first_line() {
        let json = "\n{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 1]}\n";
        assert_eq!(read("t", json.as_bytes(), None).expect("fine").requests.len(), 1);
        let csv = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n";
        let workload = read("t", csv.as_bytes(), None).expect("fine");
        assert_eq!(workload.requests[1].when, super::super::When::At(pointsman_core::Nanos(4_314_579_000)));
        assert_eq!((workload.requests[1].prompt.tokens, workload.requests[1].output), (396, 109));
        let burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n6,GPT-4,1,0,1,API log\n";
        assert_eq!(read("t", burst.as_bytes(), None).expect("fine").requests.len(), 1, "one failed");
    }

    #[test]
    fn what_is_no_text_or_more_than_fits_is_refused() {
        let bytes = b"\n\xff\xfe\n";
        assert_eq!(read("t", &bytes[..], None).expect_err("no text").to_string(), "line 2: not UTF-8");
        let wide = "100,10000000,5\n".repeat(2_000);
        let many = format!("Timestamp,ContextTokens,GeneratedTokens\n{wide}");
        assert!(matches!(read("t", many.as_bytes(), None), Err(ReadError::TooLong)));
    }

    #[test]
    fn a_broken_line_is_named() {
        let fault = |text: &str| read("t", text.as_bytes(), None).expect_err("broken").to_string();
        let good = "{\"timestamp\": 0, \"input_length\": 5, \"output_length\": 5, \"hash_ids\": [0]}\n";
        assert!(fault(&format!("{good}{{\"timestamp\": 1")).starts_with("line 2: "));
        let short = "{\"timestamp\": 0, \"input_length\": 513, \"output_length\": 5, \"hash_ids\": [0]}";
        assert_eq!(fault(short), "line 1: 513 tokens need 2 hash_ids of 512 tokens, there is 1");
        assert_eq!(
            fault("TIMESTAMP,ContextTokens,GeneratedTokens\n1,2\n"),
            "line 2: column GeneratedTokens is missing"
        );
        assert_eq!(
            fault("TIMESTAMP,ContextTokens,GeneratedTokens\n1,x,3\n"),
            "line 2: ContextTokens is no whole number: `x`"
        );
        assert!(fault("a,b\n1,2\n").starts_with("line 1: unknown columns"));
        assert!(fault("NaN,1\n{").starts_with("line 1: unknown columns"));
        assert_eq!(fault("Timestamp,ContextTokens,GeneratedTokens\nNaN,1,1\n"), "line 2: Timestamp is no time");
        assert_eq!(fault(""), "the trace has no requests");
        assert_eq!(fault("\n\n"), "the trace has no requests");
    }
}
