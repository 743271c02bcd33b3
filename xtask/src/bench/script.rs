//! Exchanges made up in advance, so that the load generator does nothing but send and compare.

use bytes::{Bytes, BytesMut};
use serde_json::json;

use crate::extproc::{HeaderMap, HttpBody, HttpHeaders, ProcessingRequest, Sent, framed};
use crate::text::prose;

/// Bytes of a body in one message, as Envoy sends them from a connection buffer of 64 KiB.
const MESSAGE: usize = 64 << 10;

/// Bytes of text in one chat message.
const TURN: usize = 3_000;

/// Prompts of one group share their first three quarters.
const GROUP: u64 = 4;

/// Stands for the request's id in the opening message, where each request writes its own.
const ID: &str = "00000000-0000-4000-8000-000000000000";

/// One request with the response that an engine would give.
pub(super) struct Script {
    opening: Bytes,
    id_at: usize,
    /// The messages of the body, the empty last one included.
    pub(super) messages: Vec<Bytes>,
    /// The body.
    pub(super) body: Bytes,
    /// The response.
    pub(super) reply: Reply,
}

/// A response.
pub(super) struct Reply {
    /// The message with its headers.
    pub(super) opening: Bytes,
    /// The messages of its body, the empty last one included.
    pub(super) messages: Vec<Bytes>,
    /// The body.
    pub(super) body: Bytes,
    /// Where each message's bytes end in the body.
    pub(super) ends: Vec<usize>,
}

impl Script {
    /// A chat request of exactly `size` bytes, the `number`th of its kind.
    pub(super) fn chat(size: usize, number: u64, reply: Reply) -> Self {
        let body = Bytes::from(chat(size, number));
        let length = body.len().to_string();
        let headers = HeaderMap::of([
            (":authority", "gateway.example.com"),
            (":path", "/v1/chat/completions"),
            (":method", "POST"),
            (":scheme", "http"),
            ("user-agent", "OpenAI/Python 2.8.1"),
            ("accept", "application/json"),
            ("content-type", "application/json"),
            ("authorization", "Bearer sk-0123456789abcdef0123456789abcdef"),
            ("x-request-id", ID),
            ("content-length", &length),
            ("x-forwarded-for", "192.0.2.2"),
            ("x-forwarded-proto", "http"),
        ]);
        let headers = HttpHeaders { headers: Some(headers), end_of_stream: false };
        let opening = framed(&ProcessingRequest::opening(Sent::RequestHeaders(headers)));
        let id_at = opening.windows(ID.len()).position(|window| window == ID.as_bytes()).expect("the id is in it");
        let mut messages: Vec<Bytes> = pieces(&body).map(|piece| message(piece, Sent::RequestBody)).collect();
        messages.push(last(Sent::RequestBody));
        Self { opening, id_at, messages, body, reply }
    }

    /// The opening message with an id made from `number`.
    pub(super) fn opening(&self, number: u64) -> Bytes {
        let mut opening = BytesMut::from(&self.opening[..]);
        let mut left = number;
        for digit in opening[self.id_at..self.id_at + ID.len()].iter_mut().rev().take(12) {
            *digit = b"0123456789abcdef"[(left & 15) as usize];
            left >>= 4;
        }
        opening.freeze()
    }
}

impl Reply {
    /// A whole answer of some 600 bytes.
    pub(super) fn json() -> Self {
        let body = json!({
            "id": "chatcmpl-9f6a30ed7f2c4d64a3b1f43d1a1e6a5c", "object": "chat.completion", "created": 1_790_000_000,
            "model": "tiny", "choices": [{"index": 0, "message": {"role": "assistant", "content": prose(5, 180),
            "refusal": null, "tool_calls": []}, "logprobs": null, "finish_reason": "stop", "stop_reason": null}],
            "usage": {"prompt_tokens": 241, "total_tokens": 281, "completion_tokens": 40,
            "prompt_tokens_details": {"cached_tokens": 192}}, "kv_transfer_params": null});
        Self::of("application/json", vec![Bytes::from(body.to_string())])
    }

    /// `count` events and `[DONE]`, as vLLM streams them.
    pub(super) fn events(count: usize) -> Self {
        let mut events: Vec<Bytes> = (0..count).map(event).collect();
        events.push(Bytes::from_static(b"data: [DONE]\n\n"));
        Self::of("text/event-stream; charset=utf-8", events)
    }

    fn of(content_type: &str, pieces: Vec<Bytes>) -> Self {
        let headers = HeaderMap::of([
            (":status", "200"),
            ("date", "Mon, 30 Nov 2026 08:00:00 GMT"),
            ("server", "uvicorn"),
            ("content-type", content_type),
        ]);
        let headers = HttpHeaders { headers: Some(headers), end_of_stream: false };
        let opening = framed(&ProcessingRequest::of(Sent::ResponseHeaders(headers)));
        let mut body = BytesMut::new();
        let mut ends = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            body.extend_from_slice(piece);
            ends.push(body.len());
        }
        let mut messages: Vec<Bytes> = pieces.into_iter().map(|piece| message(piece, Sent::ResponseBody)).collect();
        messages.push(last(Sent::ResponseBody));
        Self { opening, messages, body: body.freeze(), ends }
    }
}

fn event(number: usize) -> Bytes {
    let text = prose(number as u64, 6);
    Bytes::from(format!(
        "data: {{\"id\":\"chatcmpl-9f6a30ed7f2c4d64a3b1f43d1a1e6a5c\",\"object\":\"chat.completion.chunk\",\"created\":1790000000,\
         \"model\":\"tiny\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}},\"logprobs\":null,\"finish_reason\":null,\
         \"token_ids\":null}}]}}\n\n"
    ))
}

fn pieces(body: &Bytes) -> impl Iterator<Item = Bytes> {
    (0..body.len()).step_by(MESSAGE).map(|start| body.slice(start..body.len().min(start + MESSAGE)))
}

fn message(body: Bytes, kind: fn(HttpBody) -> Sent) -> Bytes {
    framed(&ProcessingRequest::of(kind(HttpBody { body, end_of_stream: false })))
}

fn last(kind: fn(HttpBody) -> Sent) -> Bytes {
    framed(&ProcessingRequest::of(kind(HttpBody { body: Bytes::new(), end_of_stream: true })))
}

/// A conversation of exactly `size` bytes of JSON; those of one group begin alike.
fn chat(size: usize, number: u64) -> String {
    let with = |text: usize, padding: usize| {
        let shared = text * 3 / 4;
        let mut all = prose(1_000_000 + number / GROUP, shared);
        all.push_str(&prose(number, text - shared));
        let mut turns: Vec<String> = all.as_bytes().chunks(TURN).map(written).collect();
        if let Some(turn) = turns.last_mut() {
            turn.push_str(&"x".repeat(padding));
        }
        let messages: Vec<_> = turns
            .iter()
            .enumerate()
            .map(|(at, text)| json!({"role": if at % 2 == 0 { "user" } else { "assistant" }, "content": text}))
            .collect();
        json!({"model": "tiny", "messages": messages, "max_tokens": 128, "temperature": 0.7, "top_p": 0.95}).to_string()
    };
    // Quoting and message frames take a few per cent, which only a trial tells exactly.
    let mut text = size;
    loop {
        let trial = with(text, 0).len();
        if trial <= size {
            return with(text, size - trial);
        }
        text = text.checked_sub((trial - size).max(1)).expect("a body has room for its frame");
    }
}

/// Prose with the line breaks and quotation marks of written text, which JSON has to escape.
fn written(text: &[u8]) -> String {
    let mut spaces = 0;
    let characters = text.iter().map(|&byte| {
        spaces += usize::from(byte == b' ');
        match byte {
            b' ' if spaces % 18 == 0 => '\n',
            b' ' if spaces % 41 == 0 => '"',
            other => char::from(other),
        }
    });
    characters.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_has_the_asked_size_and_is_json() {
        for size in [1_024, 220_000] {
            let body = chat(size, 3);
            assert_eq!(body.len(), size);
            let parsed: serde_json::Value = serde_json::from_str(&body).unwrap();
            assert!(parsed["messages"].as_array().is_some_and(|messages| !messages.is_empty()));
        }
    }

    #[test]
    fn chats_of_a_group_begin_alike_and_differ_in_the_end() {
        let common = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let (first, second, other) = (chat(20_000, 0), chat(20_000, 1), chat(20_000, GROUP));
        let shared = common(&first, &second);
        assert!((14_000..17_000).contains(&shared), "{shared}");
        assert!(common(&first, &other) < 200);
    }

    #[test]
    fn a_long_body_goes_in_messages_of_64_kib_and_an_empty_last_one() {
        let script = Script::chat(220_000, 0, Reply::json());
        assert_eq!(script.messages.len(), 5);
        assert_eq!(script.messages[4][..], last(Sent::RequestBody)[..]);
    }

    #[test]
    fn each_request_has_an_id_of_its_own() {
        let script = Script::chat(1_024, 0, Reply::json());
        let opening = script.opening(0xabc);
        let at = script.id_at;
        assert_eq!(&opening[at..at + ID.len()], b"00000000-0000-4000-8000-000000000abc");
        assert_eq!(opening.len(), script.opening(1).len());
    }
}
