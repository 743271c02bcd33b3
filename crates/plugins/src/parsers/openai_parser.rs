//! `openai-parser`: Reads OpenAI requests.
//!
//! Source: request-lifecycle 2.4.

use super::Claims;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_wire::body::Api;
/// What it claims.
pub static CLAIMS: Claims = Claims::new(
    "openai-parser",
    &[
        ("chat/completions", Api::Chat),
        ("completions", Api::Completions),
        ("embeddings", Api::Embeddings),
        ("responses", Api::Responses),
        ("conversations", Api::Conversations),
        ("chat/completions/render", Api::Chat),
        ("completions/render", Api::Completions),
        ("images/generations", Api::Images),
    ],
);

/// Its row.
pub const ROW: Row =
    Row { build: Some(build), ..Row::new("openai-parser", &[Kind::Parser], Stability::Beta, "Reads OpenAI requests.") };

fn build(_: &mut Build<'_>) -> Instance {
    Instance { parser: Some(&CLAIMS), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::tests::read_as;

    #[test]
    fn it_reads_its_own_paths() {
        for (path, api) in [
            ("/v1/chat/completions", Some(Api::Chat)),
            ("/v1/completions", Some(Api::Completions)),
            ("/v1/embeddings", Some(Api::Embeddings)),
            ("/v1/responses", Some(Api::Responses)),
            ("/v1/images/generations", Some(Api::Images)),
            ("/v1/messages", None),
        ] {
            assert_eq!(read_as(&CLAIMS, path), api, "{path}");
        }
    }
}
