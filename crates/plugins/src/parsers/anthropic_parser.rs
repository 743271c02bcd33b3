//! `anthropic-parser`: Reads Anthropic messages.
//!
//! Source: request-lifecycle 2.5.

use super::Claims;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_wire::body::Api;
/// What it claims.
pub static CLAIMS: Claims =
    Claims::new("anthropic-parser", &[("messages", Api::Messages), ("messages/count_tokens", Api::CountTokens)]);

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("anthropic-parser", &[Kind::Parser], Stability::Beta, "Reads Anthropic messages.")
};

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
            ("/v1/messages", Some(Api::Messages)),
            ("/v1/messages/count_tokens", Some(Api::CountTokens)),
            ("/v1/completions", None),
        ] {
            assert_eq!(read_as(&CLAIMS, path), api, "{path}");
        }
    }
}
