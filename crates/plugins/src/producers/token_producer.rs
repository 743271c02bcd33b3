//! `token-producer`: the tokens of the prompts.
//!
//! Estimate back end: four bytes of the flattened prompt are one token; ids that the client sent are used as they are. The blocks were already hashed
//! while the body arrived, so there is nothing left to do here but to say so. Source: plugin specification 9.1.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Nanos;
use pointsman_scheduling::{DataKind, Facts, Producer, Request, Scope};
use std::sync::Arc;

/// Publishes the tokens of the prompts.
#[derive(Debug)]
pub struct TokenProducer;

impl Producer for TokenProducer {
    fn produce(&self, request: &Request, _: Scope<'_>, _: Nanos, facts: &mut Facts) {
        facts.tokens = Some(request.prompt_tokens()).filter(|&t| t > 0);
    }
}

const PARAMS: &[Param] = &[
    Param::new("modelName", ParamKind::String, "Model whose tokenizer is used; not yet available."),
    Param::new("estimate", ParamKind::Any, "Estimate four bytes to a token; the only back end so far."),
    Param::new("vllm", ParamKind::Any, "Tokenize with vLLM's render endpoint; not yet available."),
    Param::new("udsTokenizerConfig", ParamKind::Any, "Old name of `vllm`; not yet available."),
];

/// Its row.
pub const ROW: Row = Row {
    params: PARAMS,
    makes: &[DataKind::TokenizedPrompt],
    default_producer: true,
    build: Some(build),
    ..Row::new(
        "token-producer",
        &[Kind::Producer],
        Stability::Beta,
        "Counts the prompt's tokens: four bytes each, or the client's ids.",
    )
};

/// The row of the deprecated spelling.
pub const OLD_ROW: Row = Row {
    params: PARAMS,
    makes: &[DataKind::TokenizedPrompt],
    deprecated: Some("use `token-producer`"),
    build: Some(build),
    ..Row::new("tokenizer", &[Kind::Producer], Stability::Beta, "Old name of `token-producer`.")
};

fn build(b: &mut Build<'_>) -> Instance {
    for later in ["modelName", "vllm", "udsTokenizerConfig"] {
        if b.params.given(later) {
            b.fault(later, &format!("`{later}` is known, not yet available: leave it out to estimate tokens"));
        }
    }
    if b.params.node("estimate").and_then(|n| n.entries()).is_some_and(|e| !e.is_empty()) {
        b.fault(
            "estimate",
            "settings of `estimate` are known, not yet available: write `estimate: {}` for the defaults",
        );
    }
    Instance { producer: Some(Arc::new(TokenProducer)), ..Instance::default() }
}
