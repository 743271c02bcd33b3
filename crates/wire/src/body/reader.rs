//! The reader of one request body.

use super::json_body::JsonBody;
use super::vertex::VertexBody;
use super::vllm_grpc::VllmGrpcBody;
use super::{Api, BodyError, ParsedBody, ReadOptions};
use bytes::Bytes;

/// Reads one request body, chunk by chunk as it arrives. See the [module](super).
#[derive(Debug)]
pub struct BodyReader {
    format: Format,
}

/// What a body is made of.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "JSON is what nearly all bodies are")]
enum Format {
    Unread(Api),
    Json(JsonBody),
    VllmGrpc(Box<VllmGrpcBody>),
    Vertex(Box<VertexBody>),
}

impl BodyReader {
    /// A reader for a body of this API.
    #[must_use]
    pub fn new(api: Api, options: ReadOptions) -> Self {
        let format = match api {
            Api::Raw | Api::CountTokens => Format::Unread(api),
            Api::VllmGrpcGenerate | Api::VllmGrpcEmbed => Format::VllmGrpc(Box::new(VllmGrpcBody::new(api, &options))),
            Api::VertexChat | Api::VertexResponses => Format::Vertex(Box::new(VertexBody::new(api, options))),
            Api::Completions
            | Api::Chat
            | Api::Messages
            | Api::Responses
            | Api::Conversations
            | Api::Embeddings
            | Api::Images
            | Api::Generate
            | Api::SglangGenerate => Format::Json(JsonBody::new(api, options, 0)),
        };
        Self { format }
    }

    /// Reads one more chunk. What is wrong with it is told by [`finish`](Self::finish).
    pub fn push(&mut self, chunk: &[u8]) {
        match &mut self.format {
            Format::Unread(_) => {}
            Format::Json(body) => body.push(chunk),
            Format::VllmGrpc(body) => body.push(chunk),
            Format::Vertex(body) => body.push(chunk),
        }
    }

    /// Ends the body. `chunks` are the bytes that were pushed, all of them, cut in any way: they are looked at again only when a
    /// field that is hashed came late.
    ///
    /// # Errors
    /// The body is not what its API asks for; the first fault of JSON or protobuf, else of content.
    pub fn finish(mut self, chunks: &[Bytes]) -> Result<ParsedBody, BodyError> {
        match &mut self.format {
            Format::Unread(api) => Ok(ParsedBody::unread(*api)),
            Format::Json(body) => body.finish(chunks),
            Format::VllmGrpc(body) => body.finish(),
            Format::Vertex(body) => body.finish(chunks),
        }
    }
}
