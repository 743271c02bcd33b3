//! From the queue into the batch: seats, adapter slots, prefix lookup, blocks.

use std::sync::Arc;

use crate::engine::{Engine, Event, What};
use crate::legs::Kv;
use crate::sequence::Sequence;

/// Adapters resident for the batch. At most `max`; an idle one is replaced, least recently used first.
#[derive(Clone, Debug)]
pub(crate) struct LoraSlots {
    max: usize,
    /// (adapter, running requests that use it), least recently used first.
    resident: Vec<(Arc<str>, usize)>,
}

impl LoraSlots {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, resident: Vec::new() }
    }

    pub(crate) fn admits(&self, name: &str) -> bool {
        self.resident.len() < self.max || self.resident.iter().any(|(n, users)| &**n == name || *users == 0)
    }

    /// Uses the adapter once more. True when it had to be loaded.
    fn enter(&mut self, name: &Arc<str>) -> bool {
        if let Some(at) = self.resident.iter().position(|(n, _)| n == name) {
            let (name, users) = self.resident.remove(at);
            self.resident.push((name, users + 1));
            return false;
        }
        if self.resident.len() >= self.max
            && let Some(idle) = self.resident.iter().position(|(_, users)| *users == 0)
        {
            self.resident.remove(idle);
        }
        self.resident.push((Arc::clone(name), 1));
        true
    }

    pub(crate) fn leave(&mut self, name: &str) {
        if let Some((_, users)) = self.resident.iter_mut().find(|(n, _)| &**n == name) {
            *users = users.saturating_sub(1);
        }
    }

    pub(crate) fn active(&self) -> bool {
        self.resident.iter().any(|(_, users)| *users > 0)
    }
}

impl Engine {
    /// True for a request that others may overtake: its adapter finds no slot, or its KV is on its way.
    pub(crate) fn passed_over(&self, sequence: &Sequence) -> bool {
        sequence.kv == Kv::Coming || sequence.lora.as_ref().is_some_and(|lora| !self.loras.admits(lora))
    }

    /// Admits waiting requests in order while there are seats, `budget` tokens and blocks. One that is [passed over](Self::passed_over) keeps its place;
    /// one whose blocks do not fit stops the loop, so nobody overtakes it but those who have blocks. A decode leg whose KV is elsewhere gets its blocks
    /// and waits on. Returns how many came in.
    pub(crate) fn admit(&mut self, mut budget: u64, chunk: u64, events: &mut Vec<Event>) -> usize {
        let size = u64::from(self.config.block_size);
        let (mut at, mut admitted, mut short) = (0, 0, false);
        while self.running.len() < self.config.max_num_seqs && budget > 0 {
            let Some(sequence) = self.waiting.get(at) else { break };
            if self.passed_over(sequence) {
                at += 1;
                continue;
            }
            if sequence.kv == Kv::Come {
                let Some(mut sequence) = self.waiting.remove(at) else { break };
                sequence.kv = Kv::Here;
                self.pinned -= 1;
                sequence.planned = 1;
                budget -= 1;
                self.enter(sequence, events);
                admitted += 1;
                continue;
            }
            if short {
                at += 1;
                continue;
            }
            let tokens = sequence.tokens();
            // One token must be computed, so a wholly cached prompt computes its last block again.
            let findable = usize::try_from((tokens - 1) / size).unwrap_or(usize::MAX);
            let (hits, idle) = self.pool.find((0..findable).map(|i| sequence.key(i)));
            let cached = hits.max(sequence.given.min(findable)) as u64 * size;
            let fetches = sequence.kv == Kv::There;
            let need = if fetches { tokens - cached } else { (tokens - cached).min(budget).min(chunk) };
            let missing = (cached + need).div_ceil(size) as usize - hits;
            if missing > self.pool.free() - idle {
                if self.pinned == 0 {
                    break;
                }
                (short, at) = (true, at + 1);
                continue;
            }
            let Some(sequence) = self.waiting.get_mut(at) else { break };
            let mut blocks = std::mem::take(&mut sequence.blocks);
            self.pool.take_cached((0..hits).map(|i| sequence.key(i)), &mut blocks);
            let enough = self.pool.allocate(missing, &mut blocks);
            debug_assert!(enough, "counted above");
            sequence.blocks = blocks;
            sequence.published = hits;
            sequence.computed = cached;
            sequence.found = cached;
            if fetches {
                sequence.kv = Kv::Coming;
                self.pinned += 1;
                events.push(Event { at: self.clock, id: sequence.id, what: What::Fetching { tokens: need } });
                at += 1;
                continue;
            }
            sequence.planned = need;
            budget -= need;
            let Some(sequence) = self.waiting.remove(at) else { break };
            self.enter(sequence, events);
            admitted += 1;
        }
        admitted
    }

    /// Into the batch.
    fn enter(&mut self, mut sequence: Sequence, events: &mut Vec<Event>) {
        if let Some(lora) = &sequence.lora
            && self.loras.enter(lora)
        {
            self.load_debt = self.load_debt.saturating_add(self.config.lora_load.as_nanos() as u64);
        }
        if !sequence.admitted {
            sequence.admitted = true;
            let cached = sequence.found;
            self.stats.prefix_queries += sequence.prompt;
            self.stats.prefix_hits += cached;
            events.push(Event { at: self.clock, id: sequence.id, what: What::Admitted { cached_tokens: cached } });
        }
        self.running.push(sequence);
    }
}
