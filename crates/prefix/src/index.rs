//! The index: writers' side and upkeep.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use pointsman_core::{BlockHash, Slot};

use crate::holders::Holder;
use crate::lru::{Lru, NONE};
use crate::table::Table;

/// The approximate prefix index of one pool. All methods may be called from any thread.
pub struct ApproxIndex {
    default_capacity: usize,
    /// Odd factor that spreads block hashes over the table. Drawn at random: clients can make hashes that are alike,
    /// but not alike after this.
    spread: u64,
    shards: Box<[RwLock<Table>]>,
    /// By slot. A column stays when its endpoint goes; it is then empty.
    columns: RwLock<Vec<Arc<Mutex<Column>>>>,
}

/// What one endpoint holds. Its lock is taken before any shard's.
#[derive(Default)]
struct Column {
    lru: Lru,
    /// Most blocks; `None` until the first record or [`ApproxIndex::set_capacity`].
    capacity: Option<usize>,
    stamp: u32,
    counts: Turnover,
}

/// Blocks that came and went at one endpoint since the index was made. What it was credited with and did not serve is in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turnover {
    /// Blocks added.
    pub added: u64,
    /// Blocks that made room, or went for another reason.
    pub gone: u64,
}

/// What one [`ApproxIndex::record`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Leading blocks that the endpoint held before.
    pub new_from: usize,
    /// Leading blocks that it holds now: the chain's length, or the endpoint's capacity.
    pub len: usize,
    stamp: u32,
}

const SHARDS: usize = 1 << Table::SHARD_BITS;

/// Highest capacity: node numbers are 32 bits.
const MOST_BLOCKS: usize = u32::MAX as usize - 1_024;

impl ApproxIndex {
    /// An empty index. `default_capacity` is the number of blocks an endpoint holds when [`ApproxIndex::set_capacity`]
    /// was never called for it.
    #[must_use]
    pub fn new(default_capacity: usize) -> Self {
        Self {
            default_capacity: default_capacity.min(MOST_BLOCKS),
            spread: RandomState::new().hash_one(0u64) | 1,
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            columns: RwLock::default(),
        }
    }

    /// Notes that `chain` was sent to an endpoint: its blocks become the most recently used ones, root first, and the
    /// least recently used ones beyond the endpoint's capacity go. Of a chain longer than the capacity, the head that
    /// fits is kept.
    pub fn record(&self, slot: Slot, chain: &[BlockHash]) -> Recorded {
        let Some(column) = self.column(slot) else { return Recorded::default() };
        let column = &mut *column.lock();
        let capacity = *column.capacity.get_or_insert(self.default_capacity);
        let chain = &chain[..chain.len().min(capacity)];
        if chain.is_empty() {
            return Recorded::default();
        }
        column.stamp = column.stamp.wrapping_add(1);
        let (stamp, lru) = (column.stamp, &mut column.lru);
        let (held, deepest) = self.held_prefix(slot, chain, lru);

        let mut node = deepest;
        for _ in 0..held {
            lru.touch(node, stamp);
            node = lru.node(node).parent;
        }
        // What was just touched is at the other end, and a chain is never longer than the capacity: none of it goes
        // here.
        let excess = (lru.len() + chain.len() - held).saturating_sub(capacity);
        for _ in 0..excess {
            self.evict_oldest(slot, lru);
        }
        let mut before = deepest;
        for (at, &hash) in chain.iter().enumerate().skip(held) {
            let node = lru.alloc(hash, before, stamp);
            if !self.shard(self.key(hash)).write().insert(self.key(hash), slot.0, node) {
                // Held, but after another block: two prompts whose hashes collide. The head is kept, the rest forgone.
                lru.release(node);
                return Recorded { new_from: held, len: at, stamp };
            }
            lru.link_after(before, node);
            before = node;
        }
        column.counts.added += (chain.len() - held) as u64;
        column.counts.gone += excess as u64;
        Recorded { new_from: held, len: chain.len(), stamp }
    }

    /// Undoes a record, for a request that another endpoint served: drops the blocks that it added and that no later
    /// record used.
    pub fn forget(&self, slot: Slot, chain: &[BlockHash], recorded: Recorded) {
        let Some(column) = self.column(slot) else { return };
        let column = &mut *column.lock();
        let len = recorded.len.min(chain.len());
        for &hash in chain[recorded.new_from.min(len)..len].iter().rev() {
            let key = self.key(hash);
            // Gone already: evicted from the tail on, so those before it may still be there.
            let Some(node) = self.shard(key).read().node(key, slot.0) else { continue };
            if column.lru.node(node).stamp != recorded.stamp {
                // Used since, and with it every block before it.
                break;
            }
            self.drop_node(slot, &mut column.lru, node);
            column.counts.gone += 1;
        }
    }

    /// Sets how many blocks an endpoint holds at most. Holding more, it loses the least recently used ones at once.
    pub fn set_capacity(&self, slot: Slot, blocks: usize) {
        let Some(column) = self.column(slot) else { return };
        let column = &mut *column.lock();
        let capacity = blocks.min(MOST_BLOCKS);
        column.capacity = Some(capacity);
        while column.lru.len() > capacity {
            self.evict_oldest(slot, &mut column.lru);
            column.counts.gone += 1;
        }
        if column.lru.len() == 0 {
            column.lru = Lru::default();
        }
    }

    /// Drops everything about an endpoint, its capacity included. When this returns, none of its entries is left.
    pub fn remove(&self, slot: Slot) {
        let Some(column) = self.columns.read().get(slot.index()).map(Arc::clone) else { return };
        let column = &mut *column.lock();
        self.empty(slot, column);
        column.capacity = None;
    }

    /// Drops every entry; capacities stay. For a change of block size.
    pub fn clear(&self) {
        let columns: Vec<_> = self.columns.read().iter().map(Arc::clone).collect();
        for (slot, column) in columns.iter().enumerate() {
            self.empty(Slot(slot as u32), &mut column.lock());
        }
    }

    /// (block, endpoint) pairs held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.read().iter().map(|column| column.lock().lru.len()).sum()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Blocks that an endpoint holds.
    #[must_use]
    pub fn len_of(&self, slot: Slot) -> usize {
        self.columns.read().get(slot.index()).map_or(0, |column| column.lock().lru.len())
    }

    /// Blocks that came to an endpoint and left it.
    #[must_use]
    pub fn turnover_of(&self, slot: Slot) -> Turnover {
        self.columns.read().get(slot.index()).map_or_else(Turnover::default, |column| column.lock().counts)
    }

    /// Endpoints that were ever recorded for, as the number above their highest slot.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.columns.read().len()
    }

    /// Visits the `limit` most recently used blocks of an endpoint: block, the block before it, and how many chains were recorded since it was used. A
    /// block comes after the one before it. Returns whether all were visited.
    ///
    /// `visit` must not call the index: the endpoint's lock is held.
    pub fn newest(&self, slot: Slot, limit: usize, mut visit: impl FnMut(BlockHash, Option<BlockHash>, u32)) -> bool {
        let Some(column) = self.columns.read().get(slot.index()).map(Arc::clone) else { return true };
        let column = column.lock();
        for node in column.lru.iter().take(limit) {
            let parent = (node.parent != NONE).then(|| column.lru.node(node.parent).hash);
            visit(node.hash, parent, column.stamp.wrapping_sub(node.stamp));
        }
        column.lru.len() <= limit
    }

    /// Distinct blocks that anybody holds.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().len()).sum()
    }

    /// Bytes that the index has allocated, itself included.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(|s| size_of::<RwLock<Table>>() + s.read().memory_bytes()).sum();
        let columns = self.columns.read();
        // The counts of an `Arc` are two words.
        let each = size_of::<Mutex<Column>>() + 16;
        let held: usize = columns.iter().map(|column| each + column.lock().lru.memory_bytes()).sum();
        size_of::<Self>() + shards + columns.capacity() * size_of::<Arc<Mutex<Column>>>() + held
    }

    /// Visits at most `limit` entries: endpoint, block, and the block before it. By slot, then from the most recently
    /// used on, so that a block comes after the one before it. Returns whether all were visited.
    ///
    /// `visit` must not call the index: the endpoint's lock is held.
    pub fn for_each(&self, limit: usize, mut visit: impl FnMut(Slot, BlockHash, Option<BlockHash>)) -> bool {
        let columns: Vec<_> = self.columns.read().iter().map(Arc::clone).collect();
        let mut left = limit;
        for (slot, column) in columns.iter().enumerate() {
            let lru = &column.lock().lru;
            for node in lru.iter() {
                if left == 0 {
                    return false;
                }
                left -= 1;
                let parent = (node.parent != NONE).then(|| lru.node(node.parent).hash);
                visit(Slot(slot as u32), node.hash, parent);
            }
        }
        true
    }

    /// How many endpoints hold a block.
    pub(crate) fn holders(&self, hash: BlockHash) -> usize {
        let key = self.key(hash);
        self.shard(key).read().count(key)
    }

    /// Slots of the endpoints that hold a block.
    pub(crate) fn each_holder(&self, hash: BlockHash, visit: impl FnMut(u32)) {
        let key = self.key(hash);
        self.shard(key).read().each(key, visit);
    }

    fn key(&self, hash: BlockHash) -> u64 {
        hash.0.wrapping_mul(self.spread)
    }

    fn shard(&self, key: u64) -> &RwLock<Table> {
        &self.shards[(key >> (64 - Table::SHARD_BITS)) as usize]
    }

    /// The column of a slot, made when there is none; `None` for a slot beyond what a holder can name.
    fn column(&self, slot: Slot) -> Option<Arc<Mutex<Column>>> {
        if slot.0 >= Holder::SLOTS {
            return None;
        }
        if let Some(column) = self.columns.read().get(slot.index()) {
            return Some(Arc::clone(column));
        }
        let mut columns = self.columns.write();
        if columns.len() <= slot.index() {
            columns.resize_with(slot.index() + 1, Arc::default);
        }
        Some(Arc::clone(&columns[slot.index()]))
    }

    /// How many leading blocks of a chain an endpoint holds, and the node of the last of them.
    fn held_prefix(&self, slot: Slot, chain: &[BlockHash], lru: &Lru) -> (usize, u32) {
        let node_of = |hash: BlockHash| {
            let key = self.key(hash);
            self.shard(key).read().node(key, slot.0)
        };
        let Some(mut deepest) = node_of(chain[0]) else { return (0, NONE) };
        let (mut held, mut absent) = (1, chain.len());
        while held < absent {
            let middle = held + (absent - held) / 2;
            match node_of(chain[middle]) {
                Some(node) => (held, deepest) = (middle + 1, node),
                None => absent = middle,
            }
        }
        // The search trusted that a held block's ancestors are the chain's own blocks. Hashes that collide break that.
        let mut node = deepest;
        let genuine = chain[..held].iter().rev().all(|&hash| {
            let same = node != NONE && lru.node(node).hash == hash;
            node = if same { lru.node(node).parent } else { NONE };
            same
        });
        if genuine && node == NONE {
            return (held, deepest);
        }
        let (mut held, mut deepest) = (0, NONE);
        for &hash in chain {
            match node_of(hash) {
                Some(node) if lru.node(node).parent == deepest => (held, deepest) = (held + 1, node),
                _ => break,
            }
        }
        (held, deepest)
    }

    fn evict_oldest(&self, slot: Slot, lru: &mut Lru) {
        let oldest = lru.oldest();
        if oldest != NONE {
            self.drop_node(slot, lru, oldest);
        }
    }

    fn drop_node(&self, slot: Slot, lru: &mut Lru, node: u32) {
        let key = self.key(lru.node(node).hash);
        self.shard(key).write().remove(key, slot.0);
        lru.unlink(node);
        lru.release(node);
    }

    fn empty(&self, slot: Slot, column: &mut Column) {
        column.counts.gone += column.lru.len() as u64;
        while column.lru.len() > 0 {
            self.evict_oldest(slot, &mut column.lru);
        }
        column.lru = Lru::default();
    }
}

impl std::fmt::Debug for ApproxIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApproxIndex")
            .field("blocks", &self.blocks())
            .field("entries", &self.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
