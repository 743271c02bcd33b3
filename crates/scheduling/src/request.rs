//! What scheduling may know about a request.

use pointsman_core::Nanos;
use std::sync::Arc;

/// One prompt, reduced to what routing needs of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PromptBlocks {
    /// Tokens of the whole prompt (estimated at four bytes each unless the client sent ids), also beyond the cap on blocks.
    pub tokens: u64,
    /// Content hash of each block up to the cap; the last, partial block counts.
    pub contents: Vec<u64>,
}

/// An image, video or sound in a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaItem {
    /// `image`, `video`, `audio`, or what a pre-tokenized request calls it.
    pub modality: Arc<str>,
    /// Hash of its content.
    pub hash: u64,
}

/// A request as the plugins see it.
#[derive(Clone, Debug)]
pub struct Request {
    /// `x-request-id`: the client's, or generated.
    pub id: Arc<str>,
    /// Model the client named; empty when it named none.
    pub incoming_model: Arc<str>,
    /// Model after rewriting. Seeds the block hashes, and is what LoRA affinity compares.
    pub target_model: Arc<str>,
    /// Headers with lower-cased names, in order of arrival.
    pub headers: Arc<[(Box<str>, Box<str>)]>,
    /// Priority of the objective; 0 without one.
    pub priority: i32,
    /// Fairness id; `default-flow` without one.
    pub fairness_id: Arc<str>,
    /// Bytes of the body as received.
    pub size_bytes: u64,
    /// The prompts; empty when the path has none or nobody asked for tokens.
    pub prompts: Vec<PromptBlocks>,
    /// Multimodal items of the prompts, each content once, in order.
    pub items: Vec<MediaItem>,
    /// Tokens in a block of `prompts`.
    pub block_tokens: u32,
    /// `cache_salt` of the body; empty when absent.
    pub cache_salt: Arc<str>,
    /// The client's limit on generated tokens.
    pub max_output_tokens: Option<u64>,
    /// When its headers arrived.
    pub received: Nanos,
    /// Whether [`crate::ProfileRun::laps`] are kept, for a trace.
    pub timed: bool,
}

impl Request {
    /// The last header of that (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().rev().find(|(n, _)| &**n == name).map(|(_, v)| &**v)
    }

    /// Prompt tokens over all prompts.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.prompts.iter().map(|p| p.tokens).sum()
    }
}

impl Default for Request {
    fn default() -> Self {
        Self {
            id: "".into(),
            incoming_model: "".into(),
            target_model: "".into(),
            headers: Arc::new([]),
            priority: 0,
            fairness_id: pointsman_core::headers::DEFAULT_FAIRNESS_ID.into(),
            size_bytes: 0,
            prompts: Vec::new(),
            items: Vec::new(),
            block_tokens: 64,
            cache_salt: "".into(),
            max_output_tokens: None,
            received: Nanos(0),
            timed: false,
        }
    }
}
