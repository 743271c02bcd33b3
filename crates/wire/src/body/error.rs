//! Why a body is refused.

use super::Api;
use crate::json::JsonError;

/// What refusals of SGLang's requests begin with.
const SGLANG: &str = "invalid generate request";

/// Why a body is refused, in the words of request-lifecycle 2.4 to 2.8. Always a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not JSON.
    #[error("{}: {fault}", unreadable(*.api))]
    Json {
        /// The API it was to be read as.
        api: Api,
        /// What is wrong with it.
        fault: JsonError,
    },
    /// No whole, uncompressed gRPC message, or one that is no protobuf.
    #[error("invalid or unsupported gRPC payload")]
    Grpc,
    /// JSON, but not an object.
    #[error("{}: a JSON object is needed, not {found}", unreadable(*.api))]
    NotAnObject {
        /// The API it was to be read as.
        api: Api,
        /// What it is instead.
        found: &'static str,
    },
    /// The field that the API cannot do without is missing, empty or of the wrong shape.
    #[error("{}", required(*.0))]
    Required(Api),
    /// A token id is not a whole number from 0 to 2^32 - 1.
    #[error("{}[{index}]: invalid value {value}", token_ids(*.api))]
    TokenId {
        /// The API it was to be read as.
        api: Api,
        /// Its place in the array.
        index: usize,
        /// What stands there, shortened.
        value: String,
    },
}

/// What is said before the fault that makes a body unreadable.
fn unreadable(api: Api) -> &'static str {
    if api == Api::SglangGenerate { SGLANG } else { "error unmarshaling request bodyMap" }
}

/// The name of the array of token ids.
fn token_ids(api: Api) -> &'static str {
    if api == Api::SglangGenerate { "invalid generate request: input_ids" } else { "token_ids" }
}

fn required(api: Api) -> &'static str {
    match api {
        Api::Completions => "invalid completions request: must have prompt field",
        Api::Chat | Api::VertexChat => "invalid chat completions request: must have valid messages field",
        Api::Messages => "invalid messages request: must have at least one message",
        Api::Responses | Api::VertexResponses => "invalid responses request: must have input field",
        Api::Conversations => "invalid conversations request: must have items field",
        Api::Embeddings => "invalid embeddings request: must have input field",
        Api::Images => "invalid images generations request: must have prompt field",
        Api::Generate => "invalid generate request: must have non-empty token_ids field",
        Api::SglangGenerate => "invalid generate request: input_ids must be provided",
        Api::VllmGrpcEmbed => "missing tokenized input in EmbedRequest",
        Api::VllmGrpcGenerate | Api::CountTokens | Api::Raw => "invalid request",
    }
}
