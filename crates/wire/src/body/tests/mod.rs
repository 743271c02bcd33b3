//! The reader against the specification: vectors, recorded bodies, cases from users, and a slow reference.

mod fields;
mod flattening;
mod grpc;
mod reference;
mod vectors;

use super::*;
use bytes::Bytes;
use pointsman_core::{BlockHash, chain, chain_seed, xxh64};
use serde_json::{Value, json};

fn options(block_tokens: usize) -> ReadOptions {
    ReadOptions { block_tokens, ..ReadOptions::default() }
}

fn read_chunks(api: Api, chunks: &[Bytes], options: ReadOptions) -> Result<ParsedBody, BodyError> {
    let mut reader = BodyReader::new(api, options);
    for chunk in chunks {
        reader.push(chunk);
    }
    reader.finish(chunks)
}

fn try_read(api: Api, body: &str) -> Result<ParsedBody, BodyError> {
    read_chunks(api, &[Bytes::copy_from_slice(body.as_bytes())], options(64))
}

fn read(api: Api, body: &str) -> ParsedBody {
    try_read(api, body).unwrap_or_else(|e| panic!("{body}: {e}"))
}

fn refusal(api: Api, body: &str) -> String {
    try_read(api, body).expect_err(body).to_string()
}

fn hashes(body: &ParsedBody, model: &str, prompt: usize) -> Vec<u64> {
    let mut out = Vec::new();
    let salt = body.cache_salt.as_deref().unwrap_or_default();
    chain(chain_seed(model, salt), &body.prompts[prompt].contents, &mut out);
    out.into_iter().map(|BlockHash(h)| h).collect()
}

/// What a prompt of these bytes must be.
fn prompt_of(bytes: &[u8], block_tokens: usize) -> Prompt {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(4), 0);
    Prompt {
        tokens: padded.len() as u64 / 4,
        contents: padded.chunks(block_tokens * 4).take(2048).map(xxh64).collect(),
    }
}

fn assert_flattens(api: Api, body: &str, bytes: &[u8]) {
    assert_eq!(read(api, body).prompts, [prompt_of(bytes, 64)], "{body}");
}
