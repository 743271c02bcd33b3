//! One completion as its client sees it: complete, ended by an error event, refused, or broken.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;

use crate::client::{Client, text_of};
use crate::sse::Events;

/// How an exchange ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The whole answer arrived: a finish reason and, for a stream, `[DONE]`.
    Complete,
    /// A stream that had begun ended with an error event; its text.
    ErrorEvent(String),
    /// An error status; the body's beginning.
    Refused(u16, String),
    /// Anything else: the connection broke, the body is cut, the stream just stopped, or nothing came in time.
    Broken(String),
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// How it ended.
    pub(crate) end: End,
    /// From sending to the first generated token (streams), or to the whole answer.
    pub(crate) first: Duration,
    /// `usage`, when the engine reported it.
    pub(crate) usage: Option<Usage>,
    /// Which endpoint served it, by the gateway's header.
    pub(crate) endpoint: String,
    /// The decision's id, by the gateway's header.
    pub(crate) decision: String,
}

/// The usage record of an answer, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Tokens of the prompt.
    pub(crate) prompt: u64,
    /// Tokens generated.
    pub(crate) completion: u64,
    /// Tokens of the prompt that were in the KV cache.
    pub(crate) cached: u64,
}

impl Usage {
    fn of(body: &Value) -> Option<Self> {
        let usage = body.get("usage").filter(|usage| usage.is_object())?;
        let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        Some(Self {
            prompt: count("/prompt_tokens")?,
            completion: count("/completion_tokens").unwrap_or(0),
            cached: count("/prompt_tokens_details/cached_tokens").unwrap_or(0),
        })
    }
}

/// Sends `body` to `url` and reads the answer to its end, which must come within `deadline`.
///
/// Whether the answer is a stream is read from its content type, not from what was asked.
pub(crate) async fn complete(client: &Client, url: &str, body: Bytes, deadline: Duration) -> Answer {
    let start = Instant::now();
    let mut answer = Answer {
        end: End::Broken(format!("no end within {deadline:?}")),
        first: Duration::ZERO,
        usage: None,
        endpoint: String::new(),
        decision: String::new(),
    };
    let exchange = async {
        let response = match client.send(url, body).await {
            Ok(response) => response,
            Err(error) => return End::Broken(format!("{error:#}")),
        };
        text_of(response.headers(), "x-pointsman-endpoint").clone_into(&mut answer.endpoint);
        text_of(response.headers(), "x-pointsman-decision").clone_into(&mut answer.decision);
        let status = response.status().as_u16();
        let is_stream = text_of(response.headers(), "content-type").starts_with("text/event-stream");
        let body = response.into_body();
        if status != 200 {
            return refused(status, body).await;
        }
        if is_stream {
            stream(body, start, &mut answer.first, &mut answer.usage).await
        } else {
            whole(body, start, &mut answer.first, &mut answer.usage).await
        }
    };
    if let Ok(end) = tokio::time::timeout(deadline, exchange).await {
        answer.end = end;
    }
    answer
}

async fn refused(status: u16, body: Incoming) -> End {
    let text = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    End::Refused(status, String::from_utf8_lossy(&text[..text.len().min(300)]).into_owned())
}

async fn whole(body: Incoming, start: Instant, first: &mut Duration, usage: &mut Option<Usage>) -> End {
    let bytes = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return End::Broken(format!("the body broke off: {error}")),
    };
    *first = start.elapsed();
    match serde_json::from_slice::<Value>(&bytes) {
        Ok(body) if has_finish_reason(&body) => {
            *usage = Usage::of(&body);
            End::Complete
        }
        Ok(_) => End::Broken("an answer without a finish reason".into()),
        Err(error) => End::Broken(format!("the answer is not JSON: {error}")),
    }
}

async fn stream(mut body: Incoming, start: Instant, first: &mut Duration, usage: &mut Option<Usage>) -> End {
    let mut events = Events::default();
    let mut finished = false;
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return End::Broken(format!("the stream broke off: {error}")),
        };
        let Some(bytes) = frame.data_ref() else { continue };
        let Some(payloads) = events.push(bytes) else { return End::Broken("an event without end".into()) };
        for payload in payloads {
            if payload == "[DONE]" {
                return if finished { End::Complete } else { End::Broken("[DONE] without a finish reason".into()) };
            }
            let Ok(event) = serde_json::from_str::<Value>(&payload) else {
                return End::Broken(format!("an event that is not JSON: {payload}"));
            };
            if let Some(error) = event.get("error") {
                return End::ErrorEvent(error.to_string());
            }
            if first.is_zero() && carries_text(&event) {
                *first = start.elapsed();
            }
            finished |= has_finish_reason(&event);
            *usage = Usage::of(&event).or(*usage);
        }
    }
    End::Broken("the stream stopped without [DONE] and without an error event".into())
}

/// Whether a chunk holds generated text; the chat stream's opening chunk holds a role only.
fn carries_text(event: &Value) -> bool {
    ["/choices/0/text", "/choices/0/delta/content"]
        .iter()
        .any(|path| event.pointer(path).and_then(Value::as_str).is_some_and(|text| !text.is_empty()))
}

fn has_finish_reason(body: &Value) -> bool {
    body.pointer("/choices/0/finish_reason").is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of a recorded answer of a real engine.
    fn recorded(name: &str) -> String {
        let path = crate::workspace::root().join("testdata/fixtures/vllm/http").join(name);
        let text = std::fs::read_to_string(path).expect("the recording is in the repository").replace("\r\n", "\n");
        text.split_once("\n\n").expect("headers and body").1.to_owned()
    }

    #[test]
    fn the_last_chunk_of_a_real_stream_carries_its_usage() {
        let payloads = Events::default().push(recorded("completions-stream-usage.response").as_bytes()).unwrap();
        let events: Vec<Value> = payloads
            .iter()
            .filter(|payload| *payload != "[DONE]")
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
        assert_eq!(
            events.iter().filter_map(Usage::of).next_back(),
            Some(Usage { prompt: 114, completion: 6, cached: 96 })
        );
        assert_eq!(events.iter().filter(|event| has_finish_reason(event)).count(), 1);
    }

    #[test]
    fn the_opening_chunk_of_a_real_chat_stream_is_not_its_first_token() {
        let payloads = Events::default().push(recorded("chat-stream.response").as_bytes()).unwrap();
        let first: Value = serde_json::from_str(&payloads[0]).unwrap();
        let second: Value = serde_json::from_str(&payloads[1]).unwrap();
        assert!(!carries_text(&first), "{first}");
        assert!(carries_text(&second), "{second}");
    }
}
