//! Usage in responses as engines send them.

mod engines;

use super::*;
use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use std::io::Write;

const SSE: &str = "text/event-stream; charset=utf-8";

fn observe<'a>(api: Api, kind: &str, chunks: impl IntoIterator<Item = &'a [u8]>) -> Observed {
    let mut reader = UsageReader::new(api, Some(kind), None);
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish()
}

/// Reads whole, then checks that every cut into two gives the same.
fn read(api: Api, kind: &str, body: &str) -> Observed {
    let whole = observe(api, kind, [body.as_bytes()]);
    for cut in 0..=body.len() {
        let (a, b) = body.as_bytes().split_at(cut);
        assert_eq!(observe(api, kind, [a, b]), whole, "cut at {cut}");
    }
    assert_eq!(observe(api, kind, body.as_bytes().chunks(1)), whole, "byte by byte");
    whole
}

fn usage(prompt: u64, completion: u64, total: u64, cached: Option<u64>) -> Option<Usage> {
    Some(Usage { prompt, completion, total, cached })
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

fn observe_encoded(encoding: &str, kind: &str, bytes: &[u8], size: usize) -> Observed {
    let mut reader = UsageReader::new(Api::Chat, Some(kind), Some(encoding));
    bytes.chunks(size).for_each(|c| reader.push(c));
    reader.finish()
}

/// Body of a recorded response, and its content type.
fn recorded(name: &str) -> (String, String) {
    let path = format!("{}/../../testdata/fixtures/vllm/http/{name}.response", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (head, body) = text.split_once("\r\n\r\n").or_else(|| text.split_once("\n\n")).expect("a head and a body");
    let kind = head.lines().find_map(|l| l.strip_prefix("content-type: ")).expect("a content type");
    (kind.to_owned(), body.to_owned())
}

#[test]
fn br_17_a_stream_of_other_scripts_is_counted_without_an_error() {
    let body = "data: {\"choices\":[{\"text\":\"\u{628a}\"}]}\n\ndata: {\"choices\":[{\"text\":\"\u{9152}\"}]}\n\ndata: [DONE]\n\n";
    assert_eq!(read(Api::Completions, SSE, body), Observed { usage: None, events: 2, first_error: None });
}

#[test]
fn br_19_usage_of_a_responses_stream_stands_in_its_last_event() {
    let body = concat!(
        "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n",
        "event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"usage\":{\"input_tokens\":99,\"output_tokens\":99}}}\n\n",
        "event: response.completed\ndata: {\"response\":{\"usage\":{\"input_tokens\":31,\"output_tokens\":3,\"total_tokens\":34,\"input_tokens_details\":{\"cached_tokens\":16}}},\"type\":\"response.completed\"}\n\n",
    );
    assert_eq!(
        read(Api::Responses, SSE, body),
        Observed { usage: usage(31, 3, 34, Some(16)), events: 3, first_error: None }
    );
}

#[test]
fn br_22_a_plain_text_error_has_no_usage_and_does_no_harm() {
    let seen = read(Api::Chat, "text/plain", "no healthy upstream");
    assert_eq!((seen.usage, seen.events), (None, 0));
    assert_eq!(
        seen.first_error.expect("said").to_string(),
        "response is not JSON: invalid character 'o' in literal null (expecting 'u')"
    );
    assert_eq!(read(Api::Chat, "text/plain", "").usage, None);
}

#[test]
fn br_23_a_gzipped_response_is_read_from_an_inflated_copy() {
    let json = br#"{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}"#;
    let packed = gzip(json);
    for size in [1, 7, 4096] {
        for encoding in ["gzip", "GZIP", " x-gzip "] {
            let seen = observe_encoded(encoding, "application/json", &packed, size);
            assert_eq!(seen, Observed { usage: usage(7, 2, 9, None), events: 0, first_error: None });
        }
    }
    let stream = gzip(b"data: {\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\ndata: [DONE]\n\n");
    assert_eq!(
        observe_encoded("gzip", SSE, &stream, 3),
        Observed { usage: usage(1, 2, 3, None), events: 1, first_error: None }
    );
    assert_eq!(observe_encoded("identity", "application/json", json, 9).usage, usage(7, 2, 9, None));
    let unknown = observe_encoded("br", "application/json", json, 9);
    assert_eq!((unknown.usage, unknown.first_error), (None, Some(UsageError::Encoding("br".into()))));
}

#[test]
fn damaged_and_exploding_gzip_is_unknown_usage() {
    let mut damaged = gzip(br#"{"usage":{"prompt_tokens":7}}"#);
    // A block type that does not exist.
    damaged[10] = 0b111;
    let mut exploding = GzEncoder::new(Vec::new(), Compression::best());
    exploding.write_all(br#"{"usage":{"prompt_tokens":7,"completion_tokens":1},"x":""#).expect("memory");
    for _ in 0..20 {
        exploding.write_all(&vec![b'x'; 1 << 20]).expect("memory");
    }
    let exploding = exploding.finish().expect("memory");
    for size in [1, 100, 1 << 20] {
        assert_eq!(
            observe_encoded("gzip", "application/json", &damaged, size),
            Observed { usage: None, events: 0, first_error: Some(UsageError::Gzip) }
        );
        assert_eq!(
            observe_encoded("gzip", "application/json", &exploding, size),
            Observed { usage: None, events: 0, first_error: Some(UsageError::TooLarge) }
        );
    }
}

#[test]
fn br_24_cached_tokens_and_figures_in_every_spelling() {
    for (json, want) in [
        (
            r#"{"usage":{"prompt_tokens":1200,"completion_tokens":10,"total_tokens":1210,"prompt_tokens_details":{"cached_tokens":1024}}}"#,
            usage(1200, 10, 1210, Some(1024)),
        ),
        (
            r#"{"usage":{"input_tokens":1200,"output_tokens":10,"total_tokens":1210,"input_tokens_details":{"cached_tokens":1024}}}"#,
            usage(1200, 10, 1210, Some(1024)),
        ),
        (
            r#"{"usage":{"prompt_tokens":"1200","completion_tokens":10.0,"total_tokens":"1210.0","prompt_tokens_details":null}}"#,
            usage(1200, 10, 1210, None),
        ),
        (
            r#"{"usage":{"prompt_tokens":1.2e3,"prompt_tokens_details":{"cached_tokens":null}}}"#,
            usage(1200, 0, 1200, None),
        ),
        (
            r#"{"usage":{"prompt_tokens":-5,"completion_tokens":"many","prompt_tokens_details":{"cached_tokens":0}}}"#,
            usage(0, 0, 0, Some(0)),
        ),
        (r#"{"usage":null}"#, None),
        (r#"{"usage":[{"prompt_tokens":1}]}"#, None),
        (r#"{"choices":[{"usage":{"prompt_tokens":1}}]}"#, None),
        (r#"{"usage":{"x":{"prompt_tokens":1},"prompt_tokens":2}}"#, usage(2, 0, 2, None)),
    ] {
        assert_eq!(read(Api::Chat, "application/json", json).usage, want, "{json}");
        assert_eq!(read(Api::Chat, SSE, &format!("data: {json}\n\n")).usage, want, "{json} as an event");
    }
}

#[test]
fn an_anthropic_stream_reports_input_first_and_output_last() {
    let body = concat!(
        "event: message_start\r\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1000,\"cache_read_input_tokens\":800,\"output_tokens\":1}}}\r\n\r\n",
        "event: content_block_delta\r\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"my \\\"usage\\\"\"}}\r\n\r\n",
        "event: message_delta\r\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":200,\"cache_read_input_tokens\":0}}\r\n\r\n",
    );
    assert_eq!(
        read(Api::Messages, SSE, body),
        Observed { usage: usage(1000, 200, 1200, Some(800)), events: 3, first_error: None }
    );
    let json = r#"{"usage":{"input_tokens":11,"output_tokens":6,"cache_creation_input_tokens":0,"cache_read_input_tokens":5}}"#;
    assert_eq!(read(Api::Messages, "application/json", json).usage, usage(11, 6, 17, Some(5)));
}

#[test]
fn events_may_lack_the_blank_and_the_last_line_its_end() {
    let body = "data:{\"a\":1}\ndata: [DONE]\r\n: comment\nid: 1\ndata\nDATA: {}\n data: {}\ndata: {\"usage\":{\"prompt_tokens\":1}}";
    assert_eq!(read(Api::Chat, SSE, body), Observed { usage: usage(1, 0, 1, None), events: 2, first_error: None });
    assert_eq!(read(Api::Chat, "Text/Event-Stream", "data:1\n").events, 1);
}

#[test]
fn an_event_that_is_not_json_is_told_once_and_the_next_one_is_read() {
    let body = "data: {\"usage\":oops}\n\ndata: {\"usage\":{\"prompt_tokens\":4,\"completion_tokens\":1}}\n\n";
    let seen = read(Api::Chat, SSE, body);
    assert_eq!((seen.usage, seen.events), (usage(4, 1, 5, None), 2));
    assert!(matches!(seen.first_error, Some(UsageError::Json(_))));
}

#[test]
fn a_line_that_is_too_long_is_counted_and_skipped_however_it_comes() {
    let long = format!("data: {{\"x\":\"{}\",\"usage\":{{\"prompt_tokens\":9}}}}\n", "y".repeat(MAX_LINE));
    let body = format!(": {}\n{long}data: {{\"usage\":{{\"prompt_tokens\":4}}}}\n", "z".repeat(MAX_LINE));
    let want = Observed { usage: usage(4, 0, 4, None), events: 2, first_error: Some(UsageError::LongLine) };
    for size in [1, 1000, 100_000, body.len()] {
        assert_eq!(observe(Api::Chat, SSE, body.as_bytes().chunks(size)), want, "{size}");
    }
}

#[test]
fn paths_that_are_not_read_have_no_usage() {
    for api in [Api::Raw, Api::CountTokens] {
        assert_eq!(read(api, "application/json", r#"{"usage":{"prompt_tokens":1}}"#), Observed::default());
    }
}

#[test]
fn recorded_engine_responses_report_what_they_say() {
    for (name, api, want, events) in [
        ("chat-stream-usage", Api::Chat, usage(135, 6, 141, Some(128)), 8),
        ("chat-stream", Api::Chat, None, 6),
        ("completions-repeat-cached", Api::Completions, usage(114, 8, 122, Some(96)), 0),
        ("responses", Api::Responses, usage(11, 6, 17, Some(0)), 0),
        ("responses-stream", Api::Responses, usage(11, 4, 15, Some(0)), 10),
        ("messages", Api::Messages, usage(11, 6, 17, Some(0)), 0),
        ("messages-stream", Api::Messages, usage(11, 4, 15, Some(0)), 8),
        ("generate", Api::Generate, usage(4, 3, 7, Some(0)), 0),
        ("generate-stream", Api::Generate, None, 3),
        ("error-404", Api::Chat, None, 0),
    ] {
        let (kind, body) = recorded(name);
        let seen = read(api, &kind, &body);
        assert_eq!(seen, Observed { usage: want, events, first_error: None }, "{name}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_reader_panic_or_read_differently_in_chunks(data in prop::collection::vec(any::<u8>(), 0..300)) {
        crate::fuzzing::usage(&data);
    }

    #[test]
    fn gzip_reads_alike_in_chunks_damaged_or_not(
        sizes in any::<[u8; 4]>(),
        lines in prop::collection::vec("data: (\\{\"usage\":\\{\"prompt_tokens\":[0-9]{1,2}\\}\\}|x)\n", 0..200),
        damage in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
    ) {
        let mut packed = gzip(lines.concat().as_bytes());
        if let Some((at, byte)) = damage {
            let at = at.index(packed.len());
            packed[at] = byte;
        }
        let mut data = vec![0xc1];
        data.extend(sizes);
        data.extend(packed);
        crate::fuzzing::usage(&data);
    }
}
