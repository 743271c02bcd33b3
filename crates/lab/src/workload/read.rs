//! Traces from outside: which format, and what is wrong in which line.

use std::io::{BufRead, Read as _};

use jiff::civil::DateTime;

use super::{MOST_IDS, Workload, mooncake, table};
use crate::recording::is_decision;

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
    /// It holds what a router decided, which [`recording`](crate::recording) makes a trace of.
    #[error("line {line}: this is a decision log, not a trace")]
    Decisions {
        /// From 1.
        line: usize,
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
    #[error("the trace has no requests{}", if *.unanswered > 0 { " with an answer" } else { "" })]
    Empty {
        /// Requests that had none.
        unanswered: usize,
    },
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
    let (mut ids, mut unanswered, mut span) = (0, 0, (u64::MAX, 0));
    let mut columns = None;
    let mut json = format.map(|format| format == Format::Jsonl);
    for line in lines(input) {
        let (number, line) = line?;
        let wrong = |what| ReadError::Line { line: number, what };
        let request =
            if *json.get_or_insert(line.starts_with('{')) {
                Some(mooncake::line(&line, number).map_err(|what| {
                    if is_decision(&line) { ReadError::Decisions { line: number } } else { wrong(what) }
                })?)
            } else {
                match &columns {
                    None => {
                        columns = Some(table::Columns::of(&line).map_err(wrong)?);
                        None
                    }
                    Some(columns) => {
                        let request = columns.line(&line, number).map_err(wrong)?;
                        unanswered += usize::from(request.is_none());
                        request
                    }
                }
            };
        if let Some((at, _)) = request {
            span = (span.0.min(at), span.1.max(at));
            if span.1 - span.0 > LONGEST {
                return Err(wrong("its time is more than 30 years from another".to_owned()));
            }
        }
        ids += request.as_ref().map_or(0, |(_, request)| request.prompt.ids.len());
        requests.extend(request);
        if requests.len() > MOST_REQUESTS || ids > MOST_IDS {
            return Err(ReadError::TooLong);
        }
    }
    if requests.is_empty() {
        return Err(ReadError::Empty { unanswered });
    }
    let from_begin = requests.into_iter().map(|(at, mut request)| {
        request.when = super::When::At(pointsman_core::Nanos(at - span.0));
        request
    });
    Ok(Workload { unanswered, ..Workload::new(name, from_begin.collect()) })
}

/// Nanoseconds that a trace may span.
const LONGEST: u64 = 1_000_000_000_000_000_000;

/// Seconds since whenever, 1970 included, as nanoseconds. What is too large for that is Unix time in milliseconds.
pub(super) fn nanos(seconds: f64) -> Option<u64> {
    let seconds = if seconds >= 1e10 { seconds / 1e3 } else { seconds };
    (0.0..1e10).contains(&seconds).then_some((seconds * 1e9) as u64)
}

/// A date with a time as nanoseconds since 2000, or seconds as [`nanos`] takes them.
pub(super) fn time(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse::<f64>() {
        return nanos(seconds);
    }
    let text = text.trim_end_matches('Z').split('+').next()?;
    let since = text.parse::<DateTime>().ok()?.duration_since(DateTime::constant(2000, 1, 1, 0, 0, 0, 0));
    u64::try_from(since.as_nanos()).ok().filter(|n| *n < 3_000_000_000_000_000_000)
}

/// That a value is none of the accepted times.
pub(super) fn no_time(column: &str, value: &str, accepted: &str) -> String {
    let value: String = value.chars().take(40).collect();
    format!("{column} is no time: `{value}`; accepted are {accepted}, and dates such as 2023-11-16 18:15:46.68")
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
        assert_eq!(read("t", burst.as_bytes(), None).expect("fine").unanswered, 1);
        let none = read("t", "Timestamp,Request tokens,Response tokens\n6,1,0\n".as_bytes(), None);
        assert!(matches!(none, Err(ReadError::Empty { unanswered: 1 })));
    }

    #[test]
    fn times_count_from_the_first_line_whatever_they_are() {
        let second_at = |text: String| match read("t", text.as_bytes(), None).expect("fine").requests[1].when {
            super::super::When::At(at) => at.0 / 1_000_000,
            super::super::When::After(..) => panic!("it has a time"),
        };
        let json = |times: [&str; 2]| {
            times
                .map(|t| {
                    format!("{{\"timestamp\": {t}, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [0]}}\n")
                })
                .concat()
        };
        let csv = |times: [&str; 2]| {
            format!("Timestamp,ContextTokens,GeneratedTokens\n{}", times.map(|t| format!("{t},1,1\n")).concat())
        };
        for text in [
            json(["1700158623000", "1700158624500"]),
            json(["\"2023-11-16T18:15:46Z\"", "\"2023-11-16T18:15:47.5Z\""]),
            csv(["1700158623", "1700158624.5"]),
            csv(["1700158623000", "1700158624500"]),
        ] {
            assert_eq!(second_at(text), 1_500);
        }
        let fault = |text: String| read("t", text.as_bytes(), None).expect_err("no times").to_string();
        let quoted = fault(json(["0", "\"noon\""]));
        assert!(
            quoted.starts_with("line 2: ")
                && quoted.contains("timestamp is no time: `noon`; accepted are milliseconds"),
            "{quoted}"
        );
        assert!(fault(csv(["0", "2000000000"])).contains("30 years"));
    }

    #[test]
    fn a_decision_log_is_told_from_a_broken_trace() {
        let log = "{\"id\": \"1\", \"at\": \"2026-11-29T10:00:00Z\", \"profiles\": []}";
        assert!(matches!(read("t", log.as_bytes(), None), Err(ReadError::Decisions { line: 1 })));
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
        assert_eq!(
            fault("Timestamp,ContextTokens,GeneratedTokens\nNaN,1,1\n"),
            "line 2: Timestamp is no time: `NaN`; accepted are seconds, Unix time in seconds or milliseconds, and dates such as 2023-11-16 18:15:46.68"
        );
        assert_eq!(fault(""), "the trace has no requests");
        assert_eq!(fault("\n\n"), "the trace has no requests");
    }
}
