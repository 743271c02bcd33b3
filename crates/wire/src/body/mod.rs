//! Request bodies, read while they arrive (request-lifecycle 2.2 to 2.10, plugin catalogue 9.1 and 9.2).
//!
//! A [`BodyReader`] is told the [`Api`] and given chunks. It keeps what routing needs and turns the prompt into pseudo-tokens of four
//! bytes, of which it keeps one content hash per block; `pointsman_core::chain` makes block hashes of them once the target model is
//! known. The prompt itself is never copied, but for its beginning where a person wants to see it ([`ReadOptions::keep`]).
//!
//! Fields that make up a prompt have a fixed order per API (a chat's `tools` stand before its `messages`). When a body brings them in
//! that order, hashing keeps pace with the bytes. When one comes late, or twice, or a message's content comes before its role,
//! the prompt is hashed again at the end from where its fields lie in the body, up to the cap only.
//!
//! How things become bytes, where the specification leaves a choice:
//!
//! * JSON that is hashed is compact, with escapes in one canonical form. In `tools` the keys are sorted, elsewhere they stay as sent.
//! * A content block is known by the key that carries its payload; a `type` that came before it and contradicts silences it.
//!   Parts of an Anthropic `tool_use` block are taken in the order sent.
//! * gRPC bodies are walked through as they arrive too. Of their prompts, ids are taken as they are; a Vertex request is the JSON in it.
//! * Of two equal keys at the top the last one wins, as with any JSON reader.

mod api;
mod asset;
mod blocks;
mod compact;
mod dimensions;
mod error;
mod estimate;
mod fields;
mod json_body;
mod place;
mod reader;
mod splice;
mod supplied;
mod unary;
mod vertex;
mod vllm_grpc;

pub use api::Api;
pub use blocks::prompts_of_ids;
pub use error::BodyError;
pub use estimate::{EstimateOptions, Frames, ImageEstimate, TokensPerImage, VideoEstimate};
pub use reader::BodyReader;
pub use splice::splice;

use std::borrow::Cow;
use std::ops::Range;

/// Blocks hashed over all prompts of one body, whatever the options say: 1,048,576, 8 MiB of hashes.
pub const MAX_BLOCKS: usize = 1 << 20;
/// Prompts of one body that are told apart: 4,096. Further ones are counted and hashed as part of the last.
pub const MAX_PROMPTS: usize = 4096;
/// Multimodal items of one body that are listed: 4,096. Further ones are hashed, but not listed.
pub const MAX_FEATURES: usize = 4096;
/// Longest model name or cache salt in bytes: 16 KiB. A longer name counts as none, a longer salt is cut.
pub const MAX_NAME: usize = 16 << 10;
/// Bytes of `tools` whose keys are sorted: 1 MiB. Beyond they are hashed as sent, without blanks.
pub const MAX_TOOLS: usize = 1 << 20;

/// How a body is read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// Tokens per block, at least 1 (0 counts as 1).
    pub block_tokens: usize,
    /// Blocks hashed per prompt; `usize::MAX` is no limit but [`MAX_BLOCKS`], 0 hashes nothing.
    pub max_blocks: usize,
    /// What images, videos and sounds are taken to cost.
    pub estimate: EstimateOptions,
    /// Bytes of the first prompt that are kept; 0: none.
    pub keep: usize,
}

impl Default for ReadOptions {
    /// Blocks of 64 tokens, up to 131,072 tokens: the defaults of `approx-prefix-cache-producer`.
    fn default() -> Self {
        Self { block_tokens: 64, max_blocks: 2048, estimate: EstimateOptions::default(), keep: 0 }
    }
}

/// What routing needs to know of a request body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedBody {
    /// The API it was read as.
    pub api: Api,
    /// `model`, when it is a string. Whether one is needed is the caller's to say.
    pub model: Option<String>,
    /// Where the value of `model` lies in the body, quotation marks included: what [`splice`] replaces. `None` where that cannot be replaced.
    pub model_span: Option<Range<usize>>,
    /// Whether `stream` is `true`.
    pub stream: bool,
    /// The first of the API's output cap keys that holds a whole, non-negative number.
    pub max_output_tokens: Option<u64>,
    /// `cache_salt`, when it is a string.
    pub cache_salt: Option<String>,
    /// The prompts that have tokens; more than one only where the API allows it.
    pub prompts: Vec<Prompt>,
    /// Whether they are token ids that the client sent.
    pub supplied: bool,
    /// Multimodal items of the (first) prompt, in order.
    pub features: Vec<Feature>,
    /// How the first prompt begins, where that is to be kept and it is text.
    pub text: Option<PromptText>,
}

impl ParsedBody {
    /// A body of which nothing is known.
    #[must_use]
    pub fn unread(api: Api) -> Self {
        Self {
            api,
            model: None,
            model_span: None,
            stream: false,
            max_output_tokens: None,
            cache_salt: None,
            prompts: Vec::new(),
            supplied: false,
            features: Vec::new(),
            text: None,
        }
    }

    /// Tokens of all prompts together.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.prompts.iter().map(|p| p.tokens).sum()
    }
}

/// One prompt as (pseudo-)tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// All its tokens, those beyond the cap included.
    pub tokens: u64,
    /// Content hash per block, the last partial one included, up to the cap.
    pub contents: Vec<u64>,
}

/// How a prompt begins, byte by byte as it is hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptText {
    /// The first bytes.
    pub bytes: Vec<u8>,
    /// Bytes of a block of the prompt; 0 where its blocks are not made of these bytes.
    pub block_bytes: usize,
}

/// A multimodal item inside a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// `image`, `video`, `audio`, or what a pre-tokenized request calls it.
    pub modality: Cow<'static, str>,
    /// Hash of its content: lower-case hexadecimal as computed here, or as supplied; empty when a request supplied none.
    pub hash: String,
    /// Its first placeholder, in tokens from the prompt's start.
    pub offset: u64,
    /// Placeholders, in tokens.
    pub length: u64,
}

#[cfg(test)]
mod tests;
