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
