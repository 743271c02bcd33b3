//! Prompts as streams of bytes, cut into blocks and hashed as they come.

use super::{MAX_BLOCKS, MAX_PROMPTS, Prompt, PromptText};
use pointsman_core::xxh64;
use xxhash_rust::xxh64::Xxh64;

/// Bytes of a token.
pub(super) const TOKEN: u64 = 4;

/// Receives the bytes of prompts; keeps one hash per block.
pub(super) struct Blocks {
    block_bytes: usize,
    max_blocks: usize,
    /// Blocks that may still be hashed over all prompts.
    budget: usize,
    /// Off: bytes are counted only.
    pub(super) hashing: bool,
    /// Bytes of the prompt under way.
    bytes: u64,
    /// Bytes of the block under way.
    filled: usize,
    partial: Xxh64,
    contents: Vec<u64>,
    pub(super) prompts: Vec<Prompt>,
    /// The beginning of the first prompt, and how long it may get.
    text: Vec<u8>,
    keep: usize,
}

impl Blocks {
    pub(super) fn new(block_tokens: usize, max_blocks: usize) -> Self {
        Self {
            block_bytes: block_tokens.max(1).saturating_mul(TOKEN as usize),
            max_blocks,
            budget: MAX_BLOCKS,
            hashing: true,
            bytes: 0,
            filled: 0,
            partial: Xxh64::new(0),
            contents: Vec::new(),
            prompts: Vec::new(),
            text: Vec::new(),
            keep: 0,
        }
    }

    /// With so many bytes of the first prompt kept.
    pub(super) fn keeping(self, keep: usize) -> Self {
        Self { keep, ..self }
    }

    /// What was kept.
    pub(super) fn take_text(&mut self) -> Option<PromptText> {
        let bytes = std::mem::take(&mut self.text);
        (!bytes.is_empty()).then_some(PromptText { bytes, block_bytes: self.block_bytes })
    }

    /// Bytes of the prompt under way.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing that still comes can change a hash of the prompt under way.
    pub(super) fn is_full(&self) -> bool {
        !self.hashing || self.contents.len() >= self.max_blocks || self.budget == 0
    }

    #[inline]
    pub(super) fn write(&mut self, mut bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        if self.text.len() < self.keep && self.prompts.is_empty() {
            let room = self.keep - self.text.len();
            self.text.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        if self.is_full() {
            return;
        }
        if self.filled > 0 {
            let take = bytes.len().min(self.block_bytes - self.filled);
            self.partial.update(&bytes[..take]);
            self.filled += take;
            bytes = &bytes[take..];
            if self.filled < self.block_bytes {
                return;
            }
            self.end_block();
        }
        while bytes.len() >= self.block_bytes && !self.is_full() {
            // A block that lies whole in the chunk is hashed where it lies.
            let (block, rest) = bytes.split_at(self.block_bytes);
            self.contents.push(xxh64(block));
            self.budget -= 1;
            bytes = rest;
        }
        if !bytes.is_empty() && !self.is_full() {
            self.partial.update(bytes);
            self.filled = bytes.len();
        }
    }

    fn end_block(&mut self) {
        self.contents.push(self.partial.digest());
        self.partial.reset(0);
        self.filled = 0;
        self.budget = self.budget.saturating_sub(1);
    }

    /// Zeros up to the next token.
    pub(super) fn pad(&mut self) {
        let over = self.bytes % TOKEN;
        if over > 0 {
            self.write(&[0; 3][..(TOKEN - over) as usize]);
        }
    }

    /// `count` times the same token. Costs nothing beyond the cap.
    pub(super) fn repeat(&mut self, token: u32, count: u64) {
        let mut piece = [0; 256];
        for four in piece.as_chunks_mut::<4>().0 {
            *four = token.to_le_bytes();
        }
        let mut left = count * TOKEN;
        while left > 0 && !self.is_full() {
            let take = left.min(piece.len() as u64);
            self.write(&piece[..take as usize]);
            left -= take;
        }
        self.bytes += left;
    }

    /// Ends the prompt under way; one without bytes is none.
    pub(super) fn end_prompt(&mut self) {
        if self.prompts.len() + 1 == MAX_PROMPTS {
            // The last one takes in what still comes; `finish` ends it.
            self.pad();
        } else if self.bytes > 0 {
            self.push_prompt();
        }
    }

    fn push_prompt(&mut self) {
        self.pad();
        if self.filled > 0 {
            self.end_block();
        }
        let contents = std::mem::take(&mut self.contents);
        self.prompts.push(Prompt { tokens: self.bytes / TOKEN, contents });
        self.bytes = 0;
    }

    /// Ends the last prompt.
    pub(super) fn finish(&mut self) {
        if self.bytes > 0 {
            self.push_prompt();
        }
    }

    /// Forgets all prompts.
    pub(super) fn restart(&mut self) {
        self.budget = MAX_BLOCKS;
        self.bytes = 0;
        self.filled = 0;
        self.partial.reset(0);
        self.contents.clear();
        self.prompts.clear();
        self.text.clear();
    }
}

/// Prompts of token ids, in blocks as those of a body that brought them.
#[must_use]
pub fn prompts_of_ids(prompts: &[Vec<u32>], block_tokens: usize, max_blocks: usize) -> Vec<Prompt> {
    let mut blocks = Blocks::new(block_tokens, max_blocks);
    let mut bytes = [0; 1024];
    for ids in prompts {
        for some in ids.chunks(bytes.len() / TOKEN as usize) {
            for (id, four) in some.iter().zip(bytes.as_chunks_mut::<4>().0) {
                *four = id.to_le_bytes();
            }
            blocks.write(&bytes[..some.len() * TOKEN as usize]);
        }
        blocks.end_prompt();
    }
    blocks.finish();
    blocks.prompts
}

impl std::fmt::Debug for Blocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Blocks")
            .field("bytes", &self.bytes)
            .field("blocks", &self.contents.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(pieces: &[&[u8]], block_tokens: usize, max_blocks: usize) -> Prompt {
        let mut blocks = Blocks::new(block_tokens, max_blocks);
        for piece in pieces {
            blocks.write(piece);
        }
        blocks.finish();
        blocks.prompts.pop().unwrap_or_default()
    }

    #[test]
    fn vector_v3_short_text_is_padded_to_a_token() {
        let prompt = of(&[b"Hello, world!"], 64, 10);
        assert_eq!(prompt, Prompt { tokens: 4, contents: vec![0x54bb_2691_ed4c_a2c8] });
    }

    #[test]
    fn vector_v2_ids_are_little_endian_and_the_last_block_may_be_short() {
        let ids: Vec<u32> = (1..=130).collect();
        let prompts = prompts_of_ids(&[ids, Vec::new(), vec![7]], 64, 10);
        let contents = vec![0xcc4d_5fce_efa7_bb2c, 0x13b5_5ed7_3ea7_34b5, 0x8f08_6032_0b6e_f404];
        assert_eq!(prompts[0], Prompt { tokens: 130, contents });
        assert_eq!((prompts.len(), prompts[1].tokens), (2, 1));
    }

    #[test]
    fn tokens_beyond_the_cap_are_counted_but_not_hashed() {
        let prompt = of(&[&[b'x'; 1000]], 4, 3);
        assert_eq!((prompt.tokens, prompt.contents.len()), (250, 3));
        assert_eq!(of(&[&[b'x'; 1000]], 4, 0), Prompt { tokens: 250, contents: vec![] });
    }

    #[test]
    fn a_repeated_token_costs_nothing_beyond_the_cap() {
        let mut blocks = Blocks::new(64, 2);
        blocks.repeat(7, u64::MAX / 8);
        blocks.finish();
        assert_eq!((blocks.prompts[0].tokens, blocks.prompts[0].contents.len()), (u64::MAX / 8, 2));
    }

    #[test]
    fn the_beginning_of_the_first_prompt_is_kept_as_far_as_asked_for() {
        let kept = |keep| {
            let mut blocks = Blocks::new(1, 2).keeping(keep);
            for piece in [&b"Hello, "[..], b"world!"] {
                blocks.write(piece);
            }
            blocks.end_prompt();
            blocks.write(b"another");
            blocks.finish();
            blocks.take_text().map(|text| (text.bytes, text.block_bytes))
        };
        assert_eq!(kept(0), None);
        assert_eq!(kept(9), Some((b"Hello, wo".to_vec(), 4)));
        assert_eq!(kept(100), Some((b"Hello, world!\0\0\0".to_vec(), 4)));
    }

    #[test]
    fn blocks_over_all_prompts_and_prompts_are_bounded() {
        let mut blocks = Blocks::new(1, usize::MAX);
        for _ in 0..MAX_PROMPTS + 10 {
            blocks.write(&[1; 4096]);
            blocks.end_prompt();
        }
        blocks.finish();
        assert_eq!(blocks.prompts.len(), MAX_PROMPTS);
        assert_eq!(blocks.prompts.iter().map(|p| p.contents.len()).sum::<usize>(), MAX_BLOCKS);
        assert_eq!(blocks.prompts.iter().map(|p| p.tokens).sum::<u64>(), (MAX_PROMPTS as u64 + 10) * 1024);
    }

    proptest! {
        #[test]
        fn every_cut_gives_the_hashes_of_the_whole(
            text in prop::collection::vec(any::<u8>(), 0..300),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
            block_tokens in 1usize..20,
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(text.len() + 1)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&[u8]> = at.windows(2).map(|w| &text[w[0]..w[1]]).collect();
            let got = of(&pieces, block_tokens, usize::MAX);
            let mut padded = text.clone();
            padded.resize(text.len().next_multiple_of(4), 0);
            let want: Vec<u64> = padded.chunks(block_tokens * 4).map(xxh64).collect();
            prop_assert_eq!(got.tokens, padded.len() as u64 / 4);
            prop_assert_eq!(got.contents, want);
        }
    }
}
