//! `vllmhttp-parser`: Reads vLLM's token-in, token-out generation.
//!
//! Source: request-lifecycle 2.6.

use super::Claims;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_wire::body::Api;
/// What it claims.
pub static CLAIMS: Claims = Claims::new("vllmhttp-parser", &[("inference/v1/generate", Api::Generate)]);

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("vllmhttp-parser", &[Kind::Parser], Stability::Beta, "Reads vLLM's token-in, token-out generation.")
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
        for (path, api) in [("/inference/v1/generate", Some(Api::Generate)), ("/generate", None)] {
            assert_eq!(read_as(&CLAIMS, path), api, "{path}");
        }
    }
}
