//! Usage in responses of engines' own APIs, and inside gRPC.

use super::*;
use crate::grpc::write::{field, frame, int, packed};

/// Reads whole, then checks that every cut into two and single bytes give the same.
fn read_bytes(api: Api, body: &[u8]) -> Observed {
    let kind = "application/grpc";
    let whole = observe(api, kind, [body]);
    for cut in 0..=body.len() {
        let (a, b) = body.split_at(cut);
        assert_eq!(observe(api, kind, [a, b]), whole, "cut at {cut}");
    }
    assert_eq!(observe(api, kind, body.chunks(1)), whole, "byte by byte");
    whole
}

#[test]
fn sglang_reports_usage_in_its_meta_info() {
    let json = r#"{"text":"ab","usage":{"prompt_tokens":9},"meta_info":{"finish_reason":{"type":"stop","matched":1},"prompt_tokens":3,"completion_tokens":2,"cached_tokens":1,"e2e_latency":0.5}}"#;
    let seen = read(Api::SglangGenerate, "application/json", json);
    assert_eq!(seen, Observed { usage: usage(3, 2, 5, Some(1)), events: 0, first_error: None });
    let other = r#"{"meta_info":{"prompt_tokens":3,"finish_reason":null}}"#;
    assert_eq!(read(Api::SglangGenerate, "application/json", other).usage, usage(3, 0, 3, None));
    assert_eq!(read(Api::Chat, "application/json", other).usage, None);
}

#[test]
fn of_an_sglang_stream_only_the_event_that_says_why_it_finished_counts() {
    let event = |text: &str, reason: &str, n: u32| {
        format!(
            "data: {{\"text\":\"{text}\",\"meta_info\":{{\"id\":\"x\",\"finish_reason\":{reason},\"prompt_tokens\":{n},\"completion_tokens\":{n},\"cached_tokens\":1}}}}\n\n"
        )
    };
    for reason in [r#"{"type":"stop"}"#, r#""length""#, "1", "true", "[]"] {
        let body = event("a", "null", 7) + &event("\\\"finish_reason\\\":1", "null", 8) + &event("ab", reason, 2);
        let body = body + &event("abc", "null", 9) + "data: [DONE]\n\n";
        let seen = read(Api::SglangGenerate, SSE, &body);
        assert_eq!(seen, Observed { usage: usage(2, 2, 4, Some(1)), events: 4, first_error: None }, "{reason}");
    }
    let cut_short = event("a", "null", 7);
    assert_eq!(read(Api::SglangGenerate, SSE, &cut_short).usage, None);
}

fn chunk(prompt: u64, completion: u64, cached: u64) -> Vec<u8> {
    frame(field(1, [packed(1, &[5, 600]), int(2, prompt), int(3, completion), int(4, cached)].concat()))
}

fn complete(prompt: u64, completion: u64, cached: u64) -> Vec<u8> {
    let fields = [packed(1, &[5, 6]), field(2, "stop"), int(3, prompt), int(4, completion), int(5, cached)];
    frame(field(2, fields.concat()))
}

#[test]
fn vllm_reports_usage_in_its_messages_and_the_newest_that_is_not_zero_counts() {
    let seen = read_bytes(Api::VllmGrpcGenerate, &complete(7, 10, 3));
    assert_eq!(seen, Observed { usage: usage(7, 10, 17, Some(3)), events: 1, first_error: None });
    let stream = [chunk(7, 1, 3), frame(field(1, packed(1, &[5]))), chunk(7, 2, 3), complete(0, 3, 0)].concat();
    let seen = read_bytes(Api::VllmGrpcGenerate, &stream);
    assert_eq!(seen, Observed { usage: usage(7, 3, 10, Some(3)), events: 4, first_error: None });
    assert_eq!(read_bytes(Api::VllmGrpcGenerate, &frame(field(1, packed(1, &[5])))).usage, None);
    assert_eq!(read_bytes(Api::VllmGrpcGenerate, b"").usage, None);
}

#[test]
fn an_embedding_reports_its_prompt() {
    let message = [field(1, [0; 64]), int(2, 12), int(3, 16)].concat();
    assert_eq!(read_bytes(Api::VllmGrpcEmbed, &frame(message)).usage, usage(12, 0, 12, None));
}

#[test]
fn a_message_that_cannot_be_read_is_told_and_the_next_one_is_read() {
    let compressed = [&[1], &complete(1, 1, 1)[1..]].concat();
    let malformed = frame([field(1, int(2, 9)), vec![0x0f]].concat());
    for bad in [compressed, malformed] {
        let seen = read_bytes(Api::VllmGrpcGenerate, &[bad, complete(7, 10, 3)].concat());
        assert_eq!(seen, Observed { usage: usage(7, 10, 17, Some(3)), events: 2, first_error: Some(UsageError::Grpc) });
    }
    let whole = [chunk(7, 1, 3), complete(7, 2, 3)].concat();
    let seen = read_bytes(Api::VllmGrpcGenerate, &whole[..whole.len() - 1]);
    assert_eq!(seen, Observed { usage: usage(7, 1, 8, Some(3)), events: 2, first_error: Some(UsageError::Grpc) });
}

fn http(data: &str) -> Vec<u8> {
    frame([field(1, "application/json"), field(2, data)].concat())
}

const CHAT: &str = r#"{"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":4}}}"#;

#[test]
fn vertex_reports_what_the_response_inside_says() {
    let seen = read_bytes(Api::VertexChat, &http(CHAT));
    assert_eq!(seen, Observed { usage: usage(5, 2, 7, Some(4)), events: 1, first_error: None });
    let responses = r#"{"usage":{"input_tokens":31,"output_tokens":3,"total_tokens":34}}"#;
    assert_eq!(read_bytes(Api::VertexResponses, &http(responses)).usage, usage(31, 3, 34, None));
}

#[test]
fn a_vertex_stream_may_be_events_or_documents_however_they_lie_in_its_messages() {
    let events = format!("data: {{\"choices\":[]}}\n\ndata: {CHAT}\n\ndata: [DONE]\n\n");
    let (a, b) = events.split_at(40);
    for body in [http(&events), [http(a), http(b)].concat(), [http(" \n"), http(&events)].concat()] {
        let seen = read_bytes(Api::VertexChat, &body);
        assert_eq!(seen, Observed { usage: usage(5, 2, 7, Some(4)), events: 2, first_error: None });
    }
    let (a, b) = CHAT.split_at(20);
    for body in [[http(a), http(b)].concat(), [http("{\"usage\":null}"), http(CHAT), http("{}")].concat()] {
        assert_eq!(read_bytes(Api::VertexChat, &body).usage, usage(5, 2, 7, Some(4)));
    }
}

#[test]
fn the_first_fault_of_a_vertex_stream_is_told_whatever_the_chunks() {
    let malformed = frame([0x0f]);
    let seen = read_bytes(Api::VertexChat, &[&malformed[..], &http("{oops"), &malformed].concat());
    assert_eq!((seen.usage, seen.first_error), (None, Some(UsageError::Grpc)));
    let seen = read_bytes(Api::VertexChat, &[&http("{oops")[..], &malformed].concat());
    assert!(matches!(seen.first_error, Some(UsageError::Json(_))));
}
