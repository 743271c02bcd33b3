//! What a router remembers of prompts: which engine was sent which blocks, least recently used first out.

use std::collections::BTreeMap;

use hashbrown::HashMap;

/// Blocks by engine, at most `capacity` each.
#[derive(Debug)]
pub(super) struct Sent {
    capacity: usize,
    engines: Vec<Lru>,
}

#[derive(Debug, Default)]
struct Lru {
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl Sent {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), engines: Vec::new() }
    }

    /// Leading blocks that were sent to an engine.
    pub(super) fn matched(&self, pod: usize, keys: &[u64]) -> usize {
        self.engines.get(pod).map_or(0, |lru| keys.iter().take_while(|key| lru.used.contains_key(*key)).count())
    }

    /// Blocks that an engine is believed to hold.
    pub(super) fn size(&self, pod: usize) -> usize {
        self.engines.get(pod).map_or(0, |lru| lru.used.len())
    }

    /// The engine lost all that it held.
    pub(super) fn forget(&mut self, pod: usize) {
        if let Some(lru) = self.engines.get_mut(pod) {
            *lru = Lru::default();
        }
    }

    pub(super) fn send(&mut self, pod: usize, keys: &[u64]) {
        if self.engines.len() <= pod {
            self.engines.resize_with(pod + 1, Lru::default);
        }
        let lru = &mut self.engines[pod];
        // Heads are used last, so that tails leave first.
        for key in keys.iter().rev() {
            lru.clock += 1;
            if let Some(before) = lru.used.insert(*key, lru.clock) {
                lru.order.remove(&before);
            }
            lru.order.insert(lru.clock, *key);
        }
        while lru.used.len() > self.capacity {
            let Some((_, key)) = lru.order.pop_first() else { break };
            lru.used.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_and_old_prompts_leave_first() {
        let mut sent = Sent::new(4);
        sent.send(0, &[1, 2, 3]);
        sent.send(0, &[1, 2, 4]);
        assert_eq!((sent.matched(0, &[1, 2, 3]), sent.size(0)), (3, 4));
        sent.send(0, &[5]);
        assert_eq!((sent.matched(0, &[1, 2, 3]), sent.matched(0, &[1, 2, 4]), sent.matched(1, &[1])), (2, 3, 0));
    }
}
