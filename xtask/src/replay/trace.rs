//! Reading a Mooncake trace and giving its requests a text.
//!
//! The trace holds no text, only one id per block of prompt tokens: equal ids mean equal content after equal content.
//! A text that is a pure function of the ids therefore shares exactly the prefixes that the original prompts shared.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::ValueEnum;
use flate2::read::GzDecoder;
use serde::Deserialize;
use serde_json::json;

use crate::text::prose;
use crate::workspace;

/// Prompt tokens per id where a line does not say.
const BLOCK_TOKENS: u64 = 512;

/// Bytes of text per token, which is how router and simulated engine both estimate.
const TOKEN_BYTES: u64 = 4;

/// Which of the two traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Trace {
    /// One hour of an online conversation service
    Conversation,
    /// A mix of public data sets with Poisson arrivals
    Synthetic,
}

/// One request of a trace.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Arrival {
    /// Milliseconds since the beginning of the trace.
    pub(crate) timestamp: f64,
    /// Prompt tokens.
    pub(crate) input_length: u64,
    /// Tokens to generate.
    pub(crate) output_length: u64,
    /// One id per block of prompt tokens.
    pub(crate) hash_ids: Vec<u64>,
    /// Tokens of a block.
    #[serde(default = "block_tokens")]
    block_tokens: u64,
}

fn block_tokens() -> u64 {
    BLOCK_TOKENS
}

impl Arrival {
    /// The prompt: four bytes per token, the last block cut to the prompt's length.
    pub(crate) fn prompt(&self) -> String {
        let block = (self.block_tokens * TOKEN_BYTES) as usize;
        let mut left = usize::try_from(self.input_length * TOKEN_BYTES).expect("the prompt fits into memory");
        let mut text = String::with_capacity(left);
        for id in &self.hash_ids {
            text.push_str(&prose(*id, left.min(block)));
            left = left.saturating_sub(block);
        }
        text
    }

    /// The body of a streamed completion that generates exactly the recorded number of tokens.
    pub(crate) fn body(&self) -> Bytes {
        let body = json!({
            "model": super::session::MODEL,
            "prompt": self.prompt(),
            "max_tokens": self.output_length.max(1),
            "ignore_eos": true,
            "stream": true,
            "stream_options": {"include_usage": true},
        });
        body.to_string().into()
    }
}

impl Trace {
    /// Its file.
    pub(crate) fn path(self) -> PathBuf {
        let name = match self {
            Self::Conversation => "conversation_trace.jsonl.gz",
            Self::Synthetic => "synthetic_trace.jsonl.gz",
        };
        workspace::root().join("testdata/mooncake").join(name)
    }
}

/// The first `limit` requests of a trace, packed with gzip or not.
pub(crate) fn read(path: &Path, limit: usize) -> Result<Vec<Arrival>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let packed = path.extension().is_some_and(|extension| extension == "gz");
    let input: Box<dyn Read> = if packed { Box::new(GzDecoder::new(file)) } else { Box::new(file) };
    BufReader::new(input)
        .lines()
        .take(limit)
        .enumerate()
        .map(|(at, line)| {
            let line = line.with_context(|| format!("{}: broken after {at} lines", path.display()))?;
            serde_json::from_str(&line).with_context(|| format!("{}:{}", path.display(), at + 1))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_traces_are_read_whole_and_their_blocks_cover_their_prompts() {
        for (trace, requests) in [(Trace::Conversation, 12_031), (Trace::Synthetic, 3_993)] {
            let arrivals = read(&trace.path(), usize::MAX).unwrap();
            assert_eq!(arrivals.len(), requests);
            for arrival in &arrivals {
                assert_eq!(arrival.hash_ids.len() as u64, arrival.input_length.div_ceil(BLOCK_TOKENS));
            }
        }
    }

    #[test]
    fn a_prompt_has_four_bytes_per_token_and_shares_what_its_ids_share() {
        let arrivals = read(&Trace::Conversation.path(), 60).unwrap();
        for arrival in &arrivals {
            assert_eq!(arrival.prompt().len() as u64, arrival.input_length * 4);
        }
        for pair in arrivals.windows(2) {
            let ids = pair[0].hash_ids.iter().zip(&pair[1].hash_ids).take_while(|(a, b)| a == b).count();
            let (one, other) = (pair[0].prompt(), pair[1].prompt());
            let shared = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
            let full = (ids * 2_048).min(one.len()).min(other.len());
            // Two different blocks may begin with the same word or two by chance.
            assert!((full..full + 64).contains(&shared), "{ids} ids, {shared} bytes");
        }
    }
}
