//! Why a body is refused.

use super::Api;
use crate::json::JsonError;

/// Why a body is refused, in the words of request-lifecycle 2.4 to 2.6. Always a 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Not JSON.
    #[error("error unmarshaling request bodyMap: {0}")]
    Json(#[from] JsonError),
    /// JSON, but not an object.
    #[error("error unmarshaling request bodyMap: a JSON object is needed, not {0}")]
    NotAnObject(&'static str),
    /// The field that the API cannot do without is missing, empty or of the wrong shape.
    #[error("{}", required(*.0))]
    Required(Api),
    /// A token id is not a whole number from 0 to 2^32 - 1.
    #[error("token_ids[{index}]: invalid value {value}")]
    TokenId {
        /// Its place in the array.
        index: usize,
        /// What stands there, shortened.
        value: String,
    },
}

fn required(api: Api) -> &'static str {
    match api {
        Api::Completions => "invalid completions request: must have prompt field",
        Api::Chat => "invalid chat completions request: must have valid messages field",
        Api::Messages => "invalid messages request: must have at least one message",
        Api::Responses => "invalid responses request: must have input field",
        Api::Conversations => "invalid conversations request: must have items field",
        Api::Embeddings => "invalid embeddings request: must have input field",
        Api::Images => "invalid images generations request: must have prompt field",
        Api::Generate => "invalid generate request: must have non-empty token_ids field",
        Api::CountTokens | Api::Raw => "invalid request",
    }
}
