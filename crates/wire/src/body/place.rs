//! Where in a body a value stands: the shape of every API as one table.

use super::Api;

/// The meaning of a value by its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The whole body.
    Root,
    /// Nothing that is read, whatever is in it.
    Skip,
    Model,
    Stream,
    Salt,
    /// An output cap key; the number is its rank.
    OutputCap(u8),
    SamplingParams,

    // Fields that are hashed.
    /// Tool definitions: JSON with sorted keys.
    Tools,
    /// JSON hashed as sent.
    Json(JsonField),
    /// Inside JSON that is hashed.
    JsonPart,
    /// Completions' prompt.
    Prompt,
    /// A string or array of ids in an array of prompts.
    PromptItem,
    /// Embeddings' input.
    EmbedInput,
    EmbedItem,
    /// A token id.
    TokenId,
    TokenIds,
    /// The prompt of an image.
    ImagePrompt,

    System,
    SystemBlock,
    SystemText,

    Messages,
    Message,
    Role,
    Content,
    Block,
    BlockType,
    Text,
    /// `image_url` or `video_url` and what stands in it.
    Media(Medium),
    MediaUrl(Medium),
    Audio,
    AudioData,
    AudioFormat,
    /// An Anthropic image's `source`.
    Source,
    SourceData,
    ToolUsePart,
    ToolUseInput,
    ToolResult,
    ResultBlock,
    ResultText,

    Features,
    MmHashes,
    MmHashList,
    MmHash,
    MmPlaceholders,
    MmPlaceholderList,
    MmPlaceholder,
    MmOffset,
    MmLength,
}

/// Which JSON field: the name it is hashed under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonField {
    Instructions,
    Input,
    Items,
}

/// Kinds of media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Image,
    Video,
    Audio,
}

impl Medium {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }
}

impl Place {
    /// The place of the value of `key` inside the object at `self`.
    pub(super) fn member(self, api: Api, key: &[u8]) -> Place {
        match self {
            Self::Root => top(api, key),
            Self::SamplingParams => match (key, api) {
                (b"max_tokens", Api::Generate) | (b"max_new_tokens", Api::SglangGenerate) => Self::OutputCap(0),
                _ => Self::Skip,
            },
            Self::JsonPart | Self::Json(_) | Self::Tools | Self::EmbedInput | Self::ToolUseInput => Self::JsonPart,
            Self::SystemBlock if key == b"text" => Self::SystemText,
            Self::Message => match key {
                b"role" => Self::Role,
                b"content" => Self::Content,
                _ => Self::Skip,
            },
            Self::Block => block(api, key),
            Self::ResultBlock => match key {
                b"text" => Self::ResultText,
                b"source" => Self::Source,
                _ => Self::Skip,
            },
            Self::Media(medium) if key == b"url" => Self::MediaUrl(medium),
            Self::Audio => match key {
                b"data" => Self::AudioData,
                b"format" => Self::AudioFormat,
                _ => Self::Skip,
            },
            Self::Source if matches!(key, b"data" | b"url") => Self::SourceData,
            Self::Features => match key {
                b"mm_hashes" => Self::MmHashes,
                b"mm_placeholders" => Self::MmPlaceholders,
                _ => Self::Skip,
            },
            Self::MmHashes => Self::MmHashList,
            Self::MmPlaceholders => Self::MmPlaceholderList,
            Self::MmPlaceholder => match key {
                b"offset" => Self::MmOffset,
                b"length" => Self::MmLength,
                _ => Self::Skip,
            },
            _ => Self::Skip,
        }
    }

    /// The place of an element of the array at `self`.
    pub(super) fn element(self) -> Place {
        match self {
            Self::JsonPart | Self::Json(_) | Self::Tools | Self::ToolUseInput => Self::JsonPart,
            Self::Prompt => Self::PromptItem,
            Self::EmbedInput => Self::EmbedItem,
            Self::PromptItem | Self::EmbedItem | Self::TokenIds => Self::TokenId,
            Self::System => Self::SystemBlock,
            Self::Messages => Self::Message,
            Self::Content => Self::Block,
            Self::ToolResult => Self::ResultBlock,
            Self::MmHashList => Self::MmHash,
            Self::MmPlaceholderList => Self::MmPlaceholder,
            _ => Self::Skip,
        }
    }
}

fn top(api: Api, key: &[u8]) -> Place {
    match (key, api) {
        (b"stream", _) => Place::Stream,
        // Its requests name no model, and their salt otherwise.
        (b"extra_key", Api::SglangGenerate) => Place::Salt,
        (b"input_ids", Api::SglangGenerate) => Place::TokenIds,
        (b"sampling_params", Api::SglangGenerate) => Place::SamplingParams,
        (_, Api::SglangGenerate) => Place::Skip,
        (b"model", _) => Place::Model,
        (b"cache_salt", _) => Place::Salt,
        (b"messages", Api::Chat | Api::Messages) => Place::Messages,
        (b"tools", Api::Chat | Api::Messages | Api::Responses) => Place::Tools,
        (b"max_completion_tokens", Api::Chat) => Place::OutputCap(0),
        (b"max_tokens", Api::Chat) => Place::OutputCap(1),
        (b"max_tokens", Api::Completions | Api::Messages) | (b"max_output_tokens", Api::Responses) => {
            Place::OutputCap(0)
        }
        (b"system", Api::Messages) => Place::System,
        (b"prompt", Api::Completions) => Place::Prompt,
        (b"prompt", Api::Images) => Place::ImagePrompt,
        (b"instructions", Api::Responses) => Place::Json(JsonField::Instructions),
        (b"input", Api::Responses) => Place::Json(JsonField::Input),
        (b"input", Api::Embeddings) => Place::EmbedInput,
        (b"items", Api::Conversations) => Place::Json(JsonField::Items),
        (b"token_ids", Api::Generate) => Place::TokenIds,
        (b"features", Api::Generate) => Place::Features,
        (b"sampling_params", Api::Generate) => Place::SamplingParams,
        _ => Place::Skip,
    }
}

fn block(api: Api, key: &[u8]) -> Place {
    match (key, api) {
        (b"type", _) => Place::BlockType,
        (b"text", _) => Place::Text,
        (b"image_url", Api::Chat) => Place::Media(Medium::Image),
        (b"video_url", Api::Chat) => Place::Media(Medium::Video),
        (b"audio_url", Api::Chat) => Place::Media(Medium::Audio),
        (b"input_audio", Api::Chat) => Place::Audio,
        (b"source", Api::Messages) => Place::Source,
        (b"thinking", Api::Messages) => Place::Text,
        (b"id" | b"name", Api::Messages) => Place::ToolUsePart,
        (b"input", Api::Messages) => Place::ToolUseInput,
        (b"content", Api::Messages) => Place::ToolResult,
        _ => Place::Skip,
    }
}

/// Whether a content block of type `kind` has a payload under `key`. Asked only when the type came first.
pub(super) fn carries(kind: &[u8], key: &[u8]) -> bool {
    match key {
        b"type" => true,
        b"text" => kind == b"text",
        b"image_url" => kind == b"image_url",
        b"video_url" => kind == b"video_url",
        b"audio_url" => kind == b"audio_url" || kind == b"input_audio",
        b"input_audio" => kind == b"input_audio" || kind == b"audio_url",
        b"source" => kind == b"image",
        b"thinking" => kind == b"thinking",
        b"id" | b"name" | b"input" => kind == b"tool_use",
        b"content" => kind == b"tool_result",
        _ => false,
    }
}

/// Place of a field among those that are hashed, in the API's order; `None` for the others.
pub(super) fn order(api: Api, place: Place) -> Option<usize> {
    Some(match (place, api) {
        (Place::Json(JsonField::Instructions), _) => 0,
        (Place::Tools, Api::Responses) => 1,
        (Place::Json(JsonField::Input), _) => 2,
        (Place::Tools, _) => 0,
        (Place::System, _) => 1,
        (Place::Messages, _) => 2,
        (Place::Prompt | Place::EmbedInput | Place::TokenIds | Place::Json(JsonField::Items), _) => 0,
        _ => return None,
    })
}
