//! What a workload shares: the hits that an endless, common cache would have.

use hashbrown::HashSet;

use super::Workload;

/// How much of the prompts was there before, whatever the fleet.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize)]
pub struct Sharing {
    /// References to full blocks.
    pub blocks: u64,
    /// Distinct ones.
    pub distinct: u64,
    /// Of the references, those to a block that a request before had.
    pub hits: u64,
    /// Prompt tokens of those.
    pub hit_tokens: u64,
    /// Prompt tokens in all.
    pub tokens: u64,
}

impl Sharing {
    /// Share of the block references, 0 to 1.
    #[must_use]
    pub fn block_ratio(&self) -> f64 {
        if self.blocks == 0 { 0.0 } else { self.hits as f64 / self.blocks as f64 }
    }

    /// Share of the prompt tokens, 0 to 1.
    #[must_use]
    pub fn token_ratio(&self) -> f64 {
        if self.tokens == 0 { 0.0 } else { self.hit_tokens as f64 / self.tokens as f64 }
    }
}

/// Looks at all prompts in order, in blocks of `size` tokens. A partial last block counts where `partial` says so.
#[must_use]
pub fn sharing(workload: &Workload, size: u32, partial: bool) -> Sharing {
    let mut seen = HashSet::new();
    let mut out = Sharing::default();
    for request in &workload.requests {
        let keys = request.prompt.blocks(size, usize::MAX, partial);
        let hits = keys.iter().take_while(|key| seen.contains(*key)).count() as u64;
        out.blocks += keys.len() as u64;
        out.hits += hits;
        out.hit_tokens += (hits * u64::from(size)).min(request.prompt.tokens);
        out.tokens += request.prompt.tokens;
        seen.extend(keys);
    }
    out.distinct = seen.len() as u64;
    out
}
