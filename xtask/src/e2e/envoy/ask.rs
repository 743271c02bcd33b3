//! Requests whose right answer is known: the engines say back what the last message said.

use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::stack::MODEL;
use crate::client::{Client, text_of};
use crate::sse::Events;
use crate::text::prose;

/// A request without an end after this long hangs.
pub(super) const DEADLINE: Duration = Duration::from_secs(30);

/// The four APIs that engines answer.
pub(super) const APIS: [&str; 4] = ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"];

/// A body that asks for `text` back.
pub(super) fn body(path: &str, text: &str, stream: bool) -> Value {
    let limit = 100_000;
    match path {
        "/v1/completions" => json!({"model": MODEL, "prompt": text, "max_tokens": limit, "stream": stream}),
        "/v1/responses" => json!({"model": MODEL, "input": text, "max_output_tokens": limit, "stream": stream}),
        _ => {
            let messages = json!([{"role": "user", "content": text}]);
            json!({"model": MODEL, "messages": messages, "max_tokens": limit, "stream": stream})
        }
    }
}

/// A chat body of exactly `size` bytes: a long earlier message, and a last one that asks for `text` back.
pub(super) fn sized(size: usize, text: &str) -> Bytes {
    let with = |filler: &str| {
        let messages = json!([{"role": "system", "content": filler}, {"role": "user", "content": text}]);
        json!({"model": MODEL, "messages": messages, "max_tokens": 1_000}).to_string()
    };
    let frame = with("").len();
    Bytes::from(with(&prose(size as u64, size.saturating_sub(frame))))
}

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The right answer.
    Right,
    /// A whole answer with other content, or a cut one.
    Wrong(String),
    /// Another status than 200; the body's beginning.
    Status(u16, String),
    /// No answer, in time or at all.
    Broken(String),
}

/// One request's story.
#[derive(Clone, Debug)]
pub(super) struct Told {
    /// When it was sent.
    pub(super) sent: Instant,
    /// When its end was known.
    pub(super) ended: Instant,
    /// How it ended.
    pub(super) end: End,
    /// The engine that says it answered.
    pub(super) engine: String,
}

/// Sends `text` to be said back and judges the answer.
pub(super) async fn ask(client: &Client, base: &str, path: &str, text: &str, stream: bool) -> Told {
    let body = Bytes::from(body(path, text, stream).to_string());
    tell(client, &format!("{base}{path}"), path, body, text, stream).await
}

/// Sends `body` and wants `text` back.
pub(super) async fn tell(client: &Client, url: &str, path: &str, body: Bytes, text: &str, stream: bool) -> Told {
    let sent = Instant::now();
    let mut engine = String::new();
    let exchange = async {
        let response = match client.send(url, body).await {
            Ok(response) => response,
            Err(error) => return End::Broken(format!("{error:#}")),
        };
        text_of(response.headers(), "x-inference-pod").clone_into(&mut engine);
        let status = response.status().as_u16();
        let bytes = match response.into_body().collect().await {
            Ok(body) => body.to_bytes(),
            Err(error) => return End::Broken(format!("the body broke off: {error}")),
        };
        if status != 200 {
            return End::Status(status, String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).into_owned());
        }
        let said = if stream { streamed(path, &bytes) } else { whole(path, &bytes) };
        match said {
            Ok(said) if said == text => End::Right,
            Ok(said) => End::Wrong(format!("{} bytes instead of {}", said.len(), text.len())),
            Err(error) => End::Wrong(format!("{error:#}")),
        }
    };
    let end = tokio::time::timeout(DEADLINE, exchange).await;
    let end = end.unwrap_or_else(|_| End::Broken(format!("no end within {DEADLINE:?}")));
    Told { sent, ended: Instant::now(), end, engine }
}

/// The text of a whole answer.
fn whole(path: &str, bytes: &[u8]) -> Result<String> {
    let answer: Value = serde_json::from_slice(bytes)?;
    let at = match path {
        "/v1/completions" => "/choices/0/text",
        "/v1/messages" => "/content/0/text",
        "/v1/responses" => "/output/0/content/0/text",
        _ => "/choices/0/message/content",
    };
    let text = answer.pointer(at).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| anyhow::anyhow!("no text at {at} of {answer}"))
}

/// The text of a stream, put together from its events, which must have come to their proper end.
fn streamed(path: &str, bytes: &[u8]) -> Result<String> {
    let payloads = Events::default().push(bytes).unwrap_or_default();
    let (end, at) = match path {
        "/v1/completions" => ("[DONE]", "/choices/0/text"),
        "/v1/messages" => ("message_stop", "/delta/text"),
        "/v1/responses" => ("response.completed", "/delta"),
        _ => ("[DONE]", "/choices/0/delta/content"),
    };
    let mut said = String::new();
    for payload in &payloads {
        if let Ok(event) = serde_json::from_str::<Value>(payload) {
            said.push_str(event.pointer(at).and_then(Value::as_str).unwrap_or_default());
        }
    }
    match payloads.last() {
        Some(last) if last.contains(end) => Ok(said),
        last => anyhow::bail!("{} events, the last one {last:?}", payloads.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sized_body_has_its_size() {
        for size in [500, 62_000, 1_000_000] {
            assert_eq!(sized(size, "over").len(), size);
        }
    }

    #[test]
    fn a_stream_without_its_end_is_no_answer() {
        let event = r#"data: {"choices":[{"delta":{"content":"ab"}}]}"#;
        let cut = format!("{event}\n\n{event}\n\n");
        assert!(streamed("/v1/chat/completions", cut.as_bytes()).is_err());
        let whole = format!("{cut}data: [DONE]\n\n");
        assert_eq!(streamed("/v1/chat/completions", whole.as_bytes()).unwrap(), "abab");
    }
}
