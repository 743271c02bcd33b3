//! `token-producer`: the tokens of the prompts.
//!
//! Estimate back end: four bytes of the flattened prompt are one token; ids that the client sent are used as they are. What pictures and videos cost is set
//! by `estimate`, and by what a request's headers tell of its videos ([`video_hints`]). The blocks were already hashed while the body arrived, so there is
//! nothing left to do here but to say so.
//!
//! vLLM render back end ([`render`]): with `vllm`, or `modelName` alone, prompts are tokenized by a vLLM server before the decision, and what it says takes the
//! place of the estimate. One back end can be named, not two. Source: plugin specification 9.1.

mod estimate;
pub mod render;
#[cfg(test)]
mod tests;

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Nanos;
use pointsman_scheduling::{DataKind, Facts, Producer, Request, Scope};
use pointsman_wire::body::{EstimateOptions, Frames};
use std::sync::Arc;

/// Publishes the tokens of the prompts.
#[derive(Debug)]
pub struct TokenProducer;

impl Producer for TokenProducer {
    fn produce(&self, request: &Request, _: Scope<'_>, _: Nanos, facts: &mut Facts) {
        facts.tokens = Some(request.prompt_tokens()).filter(|&t| t > 0);
    }
}

/// The estimate for one chat request: its `x-llm-d-video-*` headers in place of the defaults for videos.
///
/// `x-llm-d-video-duration-seconds` is the length of every video of the request, `x-llm-d-video-resolution` (`WIDTHxHEIGHT` in pixels) the size of its
/// frames, `x-llm-d-video-fps` the frame rate of the source, which only strided frames depend on. Of several headers of one name the last counts; a value
/// that is not a positive, finite number is ignored. Header names are expected in lower case.
#[must_use]
pub fn video_hints(headers: &[(Box<str>, Box<str>)], mut estimate: EstimateOptions) -> EstimateOptions {
    let (mut fps, mut duration, mut resolution) = (None, None, None);
    for (name, value) in headers {
        match &**name {
            "x-llm-d-video-fps" => fps = Some(value),
            "x-llm-d-video-duration-seconds" => duration = Some(value),
            "x-llm-d-video-resolution" => resolution = Some(value),
            _ => {}
        }
    }
    let video = &mut estimate.video;
    if let (Frames::Strided { source_fps, .. }, Some(fps)) = (&mut video.frames, fps.and_then(|v| positive(v))) {
        *source_fps = fps;
    }
    video.duration = duration.and_then(|v| positive(v)).unwrap_or(video.duration);
    video.resolution = resolution.and_then(|v| size(v)).unwrap_or(video.resolution);
    estimate
}

fn positive(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|v: &f64| v.is_finite() && *v > 0.0)
}

fn size(text: &str) -> Option<(u64, u64)> {
    let (width, height) = text.split_once(['x', 'X'])?;
    let side = |text: &str| text.trim().parse().ok().filter(|&v: &u64| v > 0);
    Some((side(width)?, side(height)?))
}

const PARAMS: &[Param] = &[
    Param::new("modelName", ParamKind::String, "Model that `vllm` is asked for: the one whose tokenizer is used."),
    Param::new("estimate", estimate::ESTIMATE, "Estimate four bytes to a token, and what images and videos cost.")
        .default("{}"),
    Param::new("vllm", render::VLLM, "Tokenize with the render endpoints of a vLLM server; needs `modelName`."),
    Param::new("udsTokenizerConfig", ParamKind::Any, "A tokenizer behind a Unix socket, which is not spoken to.")
        .deprecated("use `vllm`"),
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
        "Counts the prompt's tokens: four bytes each, the client's ids, or as a vLLM server renders it.",
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
    let given = |param: &str| b.params.given(param);
    let (estimated, rendered) = (given("estimate"), given("vllm") || given("modelName") && !given("estimate"));
    if given("udsTokenizerConfig") {
        b.fault("udsTokenizerConfig", "a tokenizer behind a Unix socket is not spoken to: use `vllm`");
    }
    if estimated && rendered {
        b.fault("vllm", "`estimate` and `vllm` exclude each other: a prompt is tokenized in one way");
    }
    let render = if rendered && !estimated { render::render(b) } else { None };
    let estimate = Some(estimate::options(b));
    Instance { producer: Some(Arc::new(TokenProducer)), estimate, render, ..Instance::default() }
}
