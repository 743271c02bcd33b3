//! KV blocks: who uses them, what they hold, and which idle one is given up next.
//!
//! Every block is either in use (one or more requests hold it) or in the free queue. A block in the free queue may still hold
//! computed content under a key; it can be found and used again until the queue's head reaches it. Release puts a request's blocks
//! at the queue's end **last block first**, so that the tail of a chain is given up before its head: a head without its tail is still a
//! useful prefix, a tail without its head is not.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

/// Number of a block inside its pool.
pub type PoolBlock = u32;

/// "No block": end of a list.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Block {
    key: Option<u64>,
    refs: u32,
    prev: u32,
    next: u32,
    /// Another block that holds the same key: two requests computed the same content at the same time.
    twin: u32,
}

/// A fixed number of blocks with reference counts, keys and an LRU free queue (the prefix cache of vLLM's v1 engine).
#[derive(Clone, Debug)]
pub struct BlockPool {
    blocks: Vec<Block>,
    by_key: HashMap<u64, PoolBlock>,
    head: u32,
    tail: u32,
    free: usize,
}

impl BlockPool {
    /// A pool of `blocks` empty blocks, all free.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        let blocks = blocks.min(NONE - 1);
        let mut pool = Self {
            blocks: vec![Block { key: None, refs: 0, prev: NONE, next: NONE, twin: NONE }; blocks as usize],
            by_key: HashMap::new(),
            head: NONE,
            tail: NONE,
            free: 0,
        };
        for block in 0..blocks {
            pool.push_free(block);
        }
        pool
    }

    /// All blocks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.blocks.len()
    }

    /// Blocks that no request holds, cached ones included.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free
    }

    /// Distinct keys that can be found.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.by_key.len()
    }

    /// Share of the blocks that requests hold, 0 to 1. Cached but idle blocks count as free, as in `kv_cache_usage_perc`.
    #[must_use]
    pub fn usage(&self) -> f64 {
        if self.blocks.is_empty() { 0.0 } else { 1.0 - self.free as f64 / self.total() as f64 }
    }

    /// True when a block with this key can be found.
    #[must_use]
    pub fn holds(&self, key: u64) -> bool {
        self.by_key.contains_key(&key)
    }

    /// Length of the longest prefix of `keys` that is cached, and how many of those blocks are idle (taking them shrinks the free
    /// queue). Changes nothing, not even the LRU order.
    pub fn find(&self, keys: impl IntoIterator<Item = u64>) -> (usize, usize) {
        let (mut hits, mut idle) = (0, 0);
        for key in keys {
            let Some(&block) = self.by_key.get(&key) else { break };
            hits += 1;
            idle += usize::from(self.blocks[block as usize].refs == 0);
        }
        (hits, idle)
    }

    /// Takes the blocks of `keys`, which must all be cached ([`BlockPool::find`]), appending them to `out`. Stops at the first that is not.
    pub fn take_cached(&mut self, keys: impl IntoIterator<Item = u64>, out: &mut Vec<PoolBlock>) {
        for key in keys {
            let Some(&block) = self.by_key.get(&key) else { break };
            if self.blocks[block as usize].refs == 0 {
                self.unlink_free(block);
            }
            self.blocks[block as usize].refs += 1;
            out.push(block);
        }
        self.check();
    }

    /// Takes `count` blocks from the head of the free queue, dropping what they held. False, and nothing taken, when there are fewer.
    #[must_use]
    pub fn allocate(&mut self, count: usize, out: &mut Vec<PoolBlock>) -> bool {
        if count > self.free {
            return false;
        }
        for _ in 0..count {
            let block = self.head;
            self.unlink_free(block);
            self.forget(block);
            self.blocks[block as usize].refs = 1;
            out.push(block);
        }
        self.check();
        true
    }

    /// Makes a held, computed block findable. A block keeps its first key; of two blocks with one key, lookups see one.
    pub fn publish(&mut self, block: PoolBlock, key: u64) {
        let entry = &mut self.blocks[block as usize];
        debug_assert!(entry.refs > 0, "only a held block can be computed");
        if entry.key.is_some() {
            return;
        }
        entry.key = Some(key);
        match self.by_key.entry(key) {
            Entry::Vacant(place) => {
                place.insert(block);
            }
            Entry::Occupied(place) => {
                let first = *place.get();
                self.blocks[block as usize].twin = self.blocks[first as usize].twin;
                self.blocks[first as usize].twin = block;
            }
        }
    }

    /// Gives up one hold on each block of a request, last block first.
    pub fn release(&mut self, blocks: &[PoolBlock]) {
        for &block in blocks.iter().rev() {
            let entry = &mut self.blocks[block as usize];
            debug_assert!(entry.refs > 0, "a block is released as often as it was taken");
            entry.refs = entry.refs.saturating_sub(1);
            if entry.refs == 0 {
                self.push_free(block);
            }
        }
        self.check();
    }

    /// Forgets all cached content. Like vLLM's `reset_prefix_cache` it does nothing, and says false, while a block is in use.
    pub fn reset(&mut self) -> bool {
        if self.free != self.total() {
            return false;
        }
        self.by_key.clear();
        for block in &mut self.blocks {
            block.key = None;
            block.twin = NONE;
        }
        true
    }

    fn push_free(&mut self, block: PoolBlock) {
        let last = self.tail;
        let entry = &mut self.blocks[block as usize];
        entry.prev = last;
        entry.next = NONE;
        match last {
            NONE => self.head = block,
            last => self.blocks[last as usize].next = block,
        }
        self.tail = block;
        self.free += 1;
    }

    fn unlink_free(&mut self, block: PoolBlock) {
        let Block { prev, next, .. } = self.blocks[block as usize];
        match prev {
            NONE => self.head = next,
            prev => self.blocks[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => self.blocks[next as usize].prev = prev,
        }
        self.free -= 1;
    }

    fn forget(&mut self, block: PoolBlock) {
        let twin = std::mem::replace(&mut self.blocks[block as usize].twin, NONE);
        let Some(key) = self.blocks[block as usize].key.take() else { return };
        let Entry::Occupied(mut entry) = self.by_key.entry(key) else { return };
        let first = *entry.get();
        if first == block {
            if twin == NONE {
                entry.remove();
            } else {
                entry.insert(twin);
            }
            return;
        }
        let mut at = first;
        while at != NONE && self.blocks[at as usize].twin != block {
            at = self.blocks[at as usize].twin;
        }
        if at != NONE {
            self.blocks[at as usize].twin = twin;
        }
    }

    #[cfg(test)]
    pub(crate) fn holds_on(&self, block: PoolBlock) -> u32 {
        self.blocks[block as usize].refs
    }

    /// Whole-pool invariants; only for small pools of debug builds, where it costs nothing worth knowing.
    fn check(&self) {
        if cfg!(debug_assertions) && self.blocks.len() <= 64 {
            let idle = self.blocks.iter().filter(|b| b.refs == 0).count();
            debug_assert_eq!(idle, self.free, "exactly the unheld blocks are in the free queue");
            debug_assert!(self.by_key.iter().all(|(key, &b)| self.blocks[b as usize].key == Some(*key)));
            let (mut at, mut length) = (self.head, 0);
            while at != NONE {
                debug_assert_eq!(self.blocks[at as usize].refs, 0);
                at = self.blocks[at as usize].next;
                length += 1;
            }
            debug_assert_eq!(length, self.free);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chain(pool: &mut BlockPool, keys: &[u64]) -> Vec<PoolBlock> {
        let mut held = Vec::new();
        assert!(pool.allocate(keys.len(), &mut held));
        for (&block, &key) in held.iter().zip(keys) {
            pool.publish(block, key);
        }
        held
    }

    #[test]
    fn tails_are_evicted_before_heads() {
        let mut pool = BlockPool::new(4);
        let held = chain(&mut pool, &[1, 2, 3, 4]);
        pool.release(&held);
        let mut other = Vec::new();
        assert!(pool.allocate(2, &mut other));
        assert_eq!(pool.find([1, 2, 3, 4]).0, 2);
        assert!(!pool.holds(3) && !pool.holds(4));
    }

    #[test]
    fn the_oldest_chain_is_evicted_first_and_a_hit_makes_it_young_again() {
        let mut pool = BlockPool::new(4);
        let a = chain(&mut pool, &[1, 2]);
        let b = chain(&mut pool, &[11, 12]);
        pool.release(&a);
        pool.release(&b);
        let mut again = Vec::new();
        pool.take_cached([1, 2], &mut again);
        pool.release(&again);
        assert!(pool.allocate(2, &mut Vec::new()));
        assert_eq!((pool.find([1, 2]).0, pool.find([11, 12]).0), (2, 0));
    }

    #[test]
    fn held_blocks_are_never_evicted_and_cached_idle_ones_count_as_free() {
        let mut pool = BlockPool::new(4);
        let held = chain(&mut pool, &[1, 2]);
        let idle = chain(&mut pool, &[8]);
        pool.release(&idle);
        assert_eq!(pool.usage(), 0.5);
        assert!(!pool.allocate(3, &mut Vec::new()));
        assert!(pool.allocate(2, &mut Vec::new()));
        assert_eq!(pool.find([1, 2]), (2, 0));
        assert!(!pool.holds(8));
        assert_eq!(held.len(), 2);
    }

    #[test]
    fn two_copies_of_one_block_outlive_each_other() {
        let mut pool = BlockPool::new(3);
        let first = chain(&mut pool, &[7]);
        let second = chain(&mut pool, &[7]);
        assert_eq!(pool.cached(), 1);
        pool.release(&first);
        // Takes the never used block, then the first copy.
        assert!(pool.allocate(2, &mut Vec::new()));
        assert!(pool.holds(7), "the copy still in use is found");
        pool.release(&second);
        assert!(pool.allocate(1, &mut Vec::new()));
        assert!(!pool.holds(7));
    }

    #[test]
    fn reset_is_refused_while_a_block_is_in_use() {
        let mut pool = BlockPool::new(2);
        let held = chain(&mut pool, &[1]);
        assert!(!pool.reset());
        pool.release(&held);
        assert!(pool.reset());
        assert_eq!(pool.cached(), 0);
    }

    proptest! {
        /// The pool against a plain model: counts add up, a held key is always found, everything can be released.
        #[test]
        fn any_order_of_use_keeps_the_pool_whole(ops in proptest::collection::vec((0_u8..3, 0_u64..6, 1_usize..5), 1..120)) {
            let mut pool = BlockPool::new(12);
            let mut held: Vec<(u64, Vec<PoolBlock>)> = Vec::new();
            for (op, family, length) in ops {
                if op < 2 {
                    let keys: Vec<u64> = (0..length as u64).map(|i| family * 100 + i).collect();
                    let (hits, idle) = pool.find(keys.iter().copied());
                    if length - hits > pool.free() - idle {
                        continue;
                    }
                    let mut blocks = Vec::new();
                    pool.take_cached(keys[..hits].iter().copied(), &mut blocks);
                    prop_assert!(pool.allocate(length - hits, &mut blocks));
                    for (&block, &key) in blocks.iter().zip(&keys).skip(hits) {
                        pool.publish(block, key);
                    }
                    held.push((family, blocks));
                } else if !held.is_empty() {
                    let (_, blocks) = held.swap_remove(family as usize % held.len());
                    pool.release(&blocks);
                }
                let in_use: hashbrown::HashSet<u32> = held.iter().flat_map(|(_, b)| b.iter().copied()).collect();
                prop_assert_eq!(pool.free(), pool.total() - in_use.len());
                for (family, blocks) in &held {
                    let keys = (0..blocks.len() as u64).map(|i| family * 100 + i);
                    prop_assert_eq!(pool.find(keys).0, blocks.len());
                }
            }
            for (_, blocks) in held {
                pool.release(&blocks);
            }
            prop_assert_eq!(pool.free(), 12);
            prop_assert!(pool.allocate(12, &mut Vec::new()));
            prop_assert_eq!(pool.cached(), 0);
        }
    }
}
