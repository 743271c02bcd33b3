//! Requests of vLLM's gRPC service: `GenerateRequest` and `EmbedRequest` of package `vllm.grpc.engine` (request-lifecycle 2.7).

use super::blocks::Blocks;
use super::supplied::Supplied;
use super::unary::Unary;
use super::{Api, BodyError, ParsedBody, ReadOptions};
use crate::grpc::{Field, Schema};
use std::mem::take;

/// Where a field stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Request,
    Text,
    Tokenized,
    Ids,
    SamplingParams,
    Multimodal,
    Placeholder,
    Hash,
}

/// Reads one such request.
#[derive(Debug)]
pub(super) struct VllmGrpcBody {
    message: Unary<Place>,
    request: Request,
}

/// What of the two kinds of prompt is there; the last one sent counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Prompt {
    Missing,
    Text,
    Tokenized,
}

#[derive(Debug)]
struct Request {
    api: Api,
    prompt: Prompt,
    blocks: Blocks,
    stream: bool,
    max_tokens: Option<u64>,
    supplied: Supplied,
}

impl VllmGrpcBody {
    pub(super) fn new(api: Api, options: &ReadOptions) -> Self {
        let mut supplied = Supplied::default();
        supplied.modality(b"image");
        let request = Request {
            api,
            prompt: Prompt::Missing,
            blocks: Blocks::new(options.block_tokens, options.max_blocks).keeping(options.keep),
            stream: false,
            max_tokens: None,
            supplied,
        };
        Self { message: Unary::new(Place::Request), request }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.message.push(chunk, &mut self.request);
    }

    pub(super) fn finish(&mut self) -> Result<ParsedBody, BodyError> {
        self.message.finish()?;
        let Request { api, prompt, blocks, stream, max_tokens, supplied } = &mut self.request;
        let (api, prompt) = (*api, *prompt);
        if api == Api::VllmGrpcEmbed && prompt != Prompt::Tokenized {
            return Err(BodyError::Required(api));
        }
        blocks.finish();
        Ok(ParsedBody {
            stream: *stream,
            max_output_tokens: *max_tokens,
            prompts: take(&mut blocks.prompts),
            supplied: prompt == Prompt::Tokenized,
            features: if prompt == Prompt::Tokenized { take(supplied).features() } else { Vec::new() },
            text: blocks.take_text().filter(|_| prompt == Prompt::Text),
            ..ParsedBody::unread(api)
        })
    }
}

impl Request {
    fn begin_prompt(&mut self, prompt: Prompt) {
        // Token ids sent in several parts are one list; a text replaces all that came before.
        if self.prompt != prompt || prompt == Prompt::Text {
            self.blocks.restart();
        }
        self.prompt = prompt;
    }

    fn token(&mut self, id: u64) {
        // 32 bits of it count, as everywhere in protobuf.
        self.blocks.write(&(id as u32).to_le_bytes());
    }
}

impl Schema for Request {
    type Place = Place;

    fn field(&mut self, parent: Place, number: u32, _: u64, _: u64) -> Field<Place> {
        let generate = self.api == Api::VllmGrpcGenerate;
        match (parent, number) {
            (Place::Request, 2) => {
                self.begin_prompt(Prompt::Tokenized);
                Field::Message(Place::Tokenized)
            }
            (Place::Request, 3) if generate => {
                self.begin_prompt(Prompt::Text);
                Field::Bytes(Place::Text)
            }
            (Place::Request, 4) if generate => Field::Message(Place::SamplingParams),
            (Place::Request, 7) if generate => Field::Message(Place::Multimodal),
            (Place::Tokenized, 2) => Field::Packed(Place::Ids),
            (Place::Multimodal, 5) => {
                self.supplied.begin_placeholder();
                // What protobuf leaves out is zero.
                self.supplied.offset(Some(0));
                self.supplied.length(Some(0));
                Field::Message(Place::Placeholder)
            }
            (Place::Multimodal, 6) => {
                self.supplied.begin_hash();
                Field::Bytes(Place::Hash)
            }
            _ => Field::Skip,
        }
    }

    fn integer(&mut self, parent: Place, number: u32, value: u64) {
        match (parent, number) {
            (Place::Request, 5) => self.stream = self.api == Api::VllmGrpcGenerate && value != 0,
            (Place::Tokenized, 2) => self.token(value),
            // A negative number is as long as one of 64 bits.
            (Place::SamplingParams, 8) => self.max_tokens = u32::try_from(value).ok().map(u64::from),
            (Place::Placeholder, 1) => self.supplied.offset(Some(value)),
            (Place::Placeholder, 2) => self.supplied.length(Some(value)),
            _ => {}
        }
    }

    fn packed(&mut self, _: Place, value: u64) {
        self.token(value);
    }

    fn bytes(&mut self, place: Place, piece: &[u8]) {
        match place {
            Place::Text => self.blocks.write(piece),
            Place::Hash => self.supplied.hash(piece),
            _ => {}
        }
    }

    fn end(&mut self, place: Place) {
        match place {
            Place::Placeholder => self.supplied.end_placeholder(),
            Place::Hash => self.supplied.end_hash(),
            _ => {}
        }
    }
}
