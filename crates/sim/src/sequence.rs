//! One request on its way through the engine.

use std::sync::Arc;

use pointsman_core::Nanos;

use crate::legs::{Kv, Leg};
use crate::rng::mix;
use crate::{BlockPool, PoolBlock};

#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    pub(crate) id: u64,
    /// Unique in this engine; makes the keys of generated blocks unlike any other key.
    pub(crate) serial: u64,
    pub(crate) prompt_keys: Vec<u64>,
    pub(crate) prompt: u64,
    pub(crate) output: u64,
    pub(crate) lora: Option<Arc<str>>,
    pub(crate) leg: Leg,
    pub(crate) kv: Kv,
    /// Leading blocks that count as cached wherever they are.
    pub(crate) given: usize,
    /// Prompt tokens found in the cache, at the last look.
    pub(crate) found: u64,
    /// Prompt tokens to compute that the cache lacked when it came.
    pub(crate) uncached: u64,
    pub(crate) generated: u64,
    /// Tokens whose KV is in `blocks`.
    pub(crate) computed: u64,
    /// Tokens the step in progress computes.
    pub(crate) planned: u64,
    pub(crate) blocks: Vec<PoolBlock>,
    /// Leading blocks that are findable.
    pub(crate) published: usize,
    pub(crate) admitted: bool,
    /// When the next token comes, where requests are timed one by one.
    pub(crate) due: Nanos,
    /// The `Tokens` event of this advance that further tokens are added to: (advance, index).
    pub(crate) open_event: (u64, usize),
}

impl Sequence {
    /// Prompt and what has been generated.
    pub(crate) fn tokens(&self) -> u64 {
        self.prompt + self.generated
    }

    /// Key of the block at `index`: the prompt's where the block is all prompt, else one of its own.
    pub(crate) fn key(&self, index: usize) -> u64 {
        self.prompt_keys.get(index).copied().unwrap_or_else(|| mix(mix(self.serial ^ 0x6f75_7470_7574) ^ index as u64))
    }

    /// True when it has blocks although it waits.
    pub(crate) fn pinned(&self) -> bool {
        matches!(self.kv, Kv::Coming | Kv::Come)
    }

    /// True when all that is left is one token per step.
    pub(crate) fn decoding(&self) -> bool {
        self.generated > 0 && self.last_token()
    }

    /// True when the KV of all its tokens but one is there: computing that one costs what a decode costs.
    pub(crate) fn last_token(&self) -> bool {
        self.computed + 1 == self.tokens()
    }

    /// Makes what is computed findable.
    pub(crate) fn publish(&mut self, block_size: u64, pool: &mut BlockPool) {
        while (self.published as u64 + 1) * block_size <= self.computed {
            pool.publish(self.blocks[self.published], self.key(self.published));
            self.published += 1;
        }
    }
}
