//! The request APIs that bodies are read as.

/// How a body is to be read. Which path means which is the parser plugins' business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// OpenAI completions.
    Completions,
    /// OpenAI chat completions.
    Chat,
    /// Anthropic messages.
    Messages,
    /// Anthropic token counting: nothing is read.
    CountTokens,
    /// OpenAI responses.
    Responses,
    /// OpenAI conversations.
    Conversations,
    /// OpenAI embeddings.
    Embeddings,
    /// OpenAI image generation: model and flags are read, nothing is hashed.
    Images,
    /// vLLM's token-in, token-out generation.
    Generate,
    /// SGLang's token-in generation.
    SglangGenerate,
    /// vLLM's gRPC service: generation from text or token ids.
    VllmGrpcGenerate,
    /// vLLM's gRPC service: embeddings of token ids.
    VllmGrpcEmbed,
    /// Vertex AI's gRPC service with a chat inside.
    VertexChat,
    /// Vertex AI's gRPC service with a responses request inside.
    VertexResponses,
    /// Anything else: nothing is read.
    Raw,
}

impl Api {
    /// Whether requests and responses of this API are gRPC messages.
    #[must_use]
    pub fn is_grpc(self) -> bool {
        matches!(self, Self::VllmGrpcGenerate | Self::VllmGrpcEmbed | Self::VertexChat | Self::VertexResponses)
    }

    /// Whether bodies of this API are looked into at all.
    #[must_use]
    pub fn is_read(self) -> bool {
        !matches!(self, Self::CountTokens | Self::Raw)
    }
}
