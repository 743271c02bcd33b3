//! `sglanghttp-parser`: Reads SGLang's token-in generation.
//!
//! `input_ids` are taken as they are, `extra_key` keeps prefixes apart as a cache salt does. The body names no model, so none is asked for
//! and none is rewritten. The path is `/generate` and nothing more.
//!
//! Source: request-lifecycle 2.6.

use super::Claims;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_wire::body::Api;

/// What it claims.
pub static CLAIMS: Claims = Claims {
    needs_model: false,
    whole_paths: true,
    ..Claims::new("sglanghttp-parser", &[("generate", Api::SglangGenerate)])
};

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("sglanghttp-parser", &[Kind::Parser], Stability::Beta, "Reads SGLang's token-in generation.")
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
        for (path, api) in [("/generate", Some(Api::SglangGenerate)), ("/v1/completions", None)] {
            assert_eq!(read_as(&CLAIMS, path), api, "{path}");
        }
    }
}
