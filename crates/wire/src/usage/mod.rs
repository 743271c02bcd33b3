//! Token usage in responses that pass by (request-lifecycle 1.6, 2.4 to 2.8).
//!
//! A [`UsageReader`] sees the response's bytes in the chunks they come in. An event stream is cut into lines, and only lines with
//! `"usage"` in them are looked into (for SGLang, those with a `"finish_reason"`); a JSON document goes through the tokenizer as it
//! arrives, and gRPC messages are walked through, so that none of them is ever held. A gzipped response is inflated beside, up to a limit. What cannot be read is unknown, never an error to anyone.

mod inflate;
mod messages;
mod numbers;
mod plain;
mod scan;
mod sse;
mod vertex;
mod vllm_grpc;

use crate::body::Api;
use crate::json::JsonError;
use inflate::Inflate;
use numbers::Found;
use plain::Plain;
use vertex::VertexUsage;
use vllm_grpc::VllmGrpcUsage;

/// Longest line of an event stream that is looked into: 256 KiB. A longer one is counted and skipped.
pub const MAX_LINE: usize = 256 << 10;
/// Most bytes that a compressed response is inflated to: 16 MiB. Usage behind them is unknown.
pub const MAX_INFLATED: usize = 16 << 20;

/// Tokens as the engine reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens generated.
    pub completion: u64,
    /// Both together, or what the engine says they are together.
    pub total: u64,
    /// Tokens of the prompt that came from a cache; `None` where the engine does not say.
    pub cached: Option<u64>,
}

/// What was seen of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Observed {
    /// Usage, if there was any.
    pub usage: Option<Usage>,
    /// `data:` lines of an event stream, `[DONE]` not counted; messages of a gRPC response that is no such stream.
    pub events: u64,
    /// The first thing that could not be read. For the curious, not for the client.
    pub first_error: Option<UsageError>,
}

/// Why usage is not known, or not all of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    /// The response, or an event that speaks of usage, is not JSON.
    #[error("response is not JSON: {0}")]
    Json(#[from] JsonError),
    /// A content encoding that is not read.
    #[error("content encoding `{0}` is not read")]
    Encoding(String),
    /// Damaged gzip data.
    #[error("response is not valid gzip")]
    Gzip,
    /// Inflates to more than [`MAX_INFLATED`].
    #[error("response inflates to more than 16 MiB")]
    TooLarge,
    /// A line longer than [`MAX_LINE`].
    #[error("an event is longer than 256 KiB")]
    LongLine,
    /// A gRPC message that is compressed, malformed or cut short.
    #[error("a gRPC message is compressed, malformed or cut short")]
    Grpc,
}

/// Reads usage from one response. See the [module](self).
#[derive(Debug)]
pub struct UsageReader {
    inflate: Option<Box<Inflate>>,
    body: Option<Body>,
    found: Found,
    first_error: Option<UsageError>,
}

/// How the response's plain bytes are read.
#[derive(Debug)]
enum Body {
    Plain(Plain),
    VllmGrpc(Box<VllmGrpcUsage>),
    Vertex(Box<VertexUsage>),
}

impl UsageReader {
    /// A reader for a response with these headers' values.
    #[must_use]
    pub fn new(api: Api, content_type: Option<&str>, content_encoding: Option<&str>) -> Self {
        let mut reader = Self { inflate: None, body: None, found: Found::new(api), first_error: None };
        if !api.is_read() {
            return reader;
        }
        match content_encoding.map(str::trim).filter(|e| !e.is_empty() && !e.eq_ignore_ascii_case("identity")) {
            None => {}
            Some(e) if e.eq_ignore_ascii_case("gzip") || e.eq_ignore_ascii_case("x-gzip") => {
                reader.inflate = Some(Box::default());
            }
            Some(other) => {
                let shown = other.chars().take(40).collect();
                reader.first_error = Some(UsageError::Encoding(shown));
                return reader;
            }
        }
        reader.body = Some(match api {
            Api::VllmGrpcGenerate | Api::VllmGrpcEmbed => Body::VllmGrpc(Box::new(VllmGrpcUsage::new(api))),
            Api::VertexChat | Api::VertexResponses => Body::Vertex(Box::new(VertexUsage::new(api))),
            _ => {
                let events = content_type.is_some_and(|t| t.to_ascii_lowercase().contains("text/event-stream"));
                Body::Plain(Plain::new(api, events))
            }
        });
        reader
    }

    /// Looks at one more chunk of the response, as it was received.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.body.is_none() {
            return;
        }
        let Some(mut inflate) = self.inflate.take() else { return self.plain(chunk) };
        match inflate.push(chunk, |plain| self.plain(plain)) {
            Ok(()) => self.inflate = Some(inflate),
            Err(error) => {
                self.fail(error);
                self.body = None;
                // How far the decoder came depends on how the bytes were cut; half of an answer is none.
                self.found = Found::new(self.found.api);
            }
        }
    }

    /// Ends the response, complete or not.
    #[must_use]
    pub fn finish(mut self) -> Observed {
        let mut events = 0;
        if let Some(mut body) = self.body.take() {
            let read = match &mut body {
                Body::Plain(plain) => plain.finish(&mut self.found),
                Body::VllmGrpc(messages) => messages.finish(),
                Body::Vertex(messages) => messages.finish(&mut self.found),
            };
            if let Err(error) = read {
                self.fail(error);
            }
            events = match &body {
                Body::Plain(plain) => plain.events(),
                Body::VllmGrpc(messages) => messages.count(),
                Body::Vertex(messages) => messages.count(),
            };
        }
        Observed { usage: self.found.usage(), events, first_error: self.first_error }
    }

    fn plain(&mut self, chunk: &[u8]) {
        let read = match &mut self.body {
            Some(Body::Plain(plain)) => plain.push(chunk, &mut self.found),
            Some(Body::VllmGrpc(messages)) => messages.push(chunk, &mut self.found),
            Some(Body::Vertex(messages)) => messages.push(chunk, &mut self.found),
            None => Ok(()),
        };
        if let Err(error) = read {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: UsageError) {
        self.first_error.get_or_insert(error);
    }
}

#[cfg(test)]
mod tests;
