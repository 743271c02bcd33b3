//! A prompt without its text: which units of content it is made of.

use std::sync::Arc;

use crate::mix;

/// What a prompt holds, as far as sharing goes: one id per `unit` tokens, the last one cut to the prompt's length.
///
/// Two prompts share exactly the leading units whose ids are equal. An id stands for its content *and* all content before it, as in the Mooncake
/// traces, so blocks cut from it need no chaining.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Tokens.
    pub tokens: u64,
    /// Tokens per id, at least 1.
    pub unit: u32,
    /// One id per unit. Where there are fewer than the prompt has units, the rest is unlike anything else only if the caller saw to that.
    pub ids: Arc<[u64]>,
}

impl Prompt {
    /// Keys of its blocks of `size` tokens, at most `most`: all full ones, and the last, partial one if `partial`.
    ///
    /// Equal content gives equal keys in every process. A block that is cut differently, or holds less, has another key.
    #[must_use]
    pub fn blocks(&self, size: u32, most: usize, partial: bool) -> Vec<u64> {
        let (size, unit) = (u64::from(size.max(1)), u64::from(self.unit.max(1)));
        let blocks = if partial { self.tokens.div_ceil(size) } else { self.tokens / size };
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX).min(most);
        let mut out = Vec::with_capacity(blocks.min(1 << 20));
        for block in 0..blocks as u64 {
            let (start, end) = (block * size, ((block + 1) * size).min(self.tokens));
            let (first, last) = (start / unit, (end - 1) / unit);
            // Every id contains what is before it: the last one, and how far into it the block reaches, say all.
            let Some(&id) = self.ids.get(last as usize) else { break };
            let reach = end - last * unit;
            let width = if first == last { end - start } else { size | 1 << 40 };
            out.push(mix(mix(id ^ 0x7072_6f6d_7074) ^ reach << 32 ^ width));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(tokens: u64, ids: &[u64]) -> Prompt {
        Prompt { tokens, unit: 512, ids: ids.into() }
    }

    #[test]
    fn prompts_share_the_blocks_of_their_common_units_and_no_others() {
        let (a, b) = (prompt(1_300, &[1, 2, 3]), prompt(1_536, &[1, 2, 4]));
        let shared = |size| {
            let (a, b) = (a.blocks(size, usize::MAX, false), b.blocks(size, usize::MAX, false));
            a.iter().zip(&b).take_while(|(x, y)| x == y).count()
        };
        assert_eq!([16, 64, 512, 384].map(shared), [64, 16, 2, 2]);
    }

    #[test]
    fn all_keys_of_a_prompt_differ_and_a_partial_block_is_counted_only_when_asked_for() {
        let p = prompt(1_300, &[1, 2, 3]);
        let keys = p.blocks(64, usize::MAX, true);
        assert_eq!((keys.len(), p.blocks(64, usize::MAX, false).len(), p.blocks(64, 5, true).len()), (21, 20, 5));
        let distinct: hashbrown::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert_ne!(prompt(1_299, &[1, 2, 3]).blocks(64, usize::MAX, true)[20], keys[20]);
    }

    #[test]
    fn a_prompt_shorter_than_a_block_has_no_full_one() {
        assert!(prompt(20, &[7]).blocks(64, usize::MAX, false).is_empty());
        assert!(prompt(0, &[]).blocks(64, usize::MAX, true).is_empty());
    }
}
