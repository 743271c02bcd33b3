//! One shard of the table from block to holders.

use crate::holders::{Holder, Holders, Lists, Moved};

/// Open addressing with entries *sorted by key*: the preferred place of a key grows with the key, and an entry sits
/// there or as little to the right as the order allows. A search for an absent key ends at the first larger one, a
/// removal moves its run one to the left (no tombstones, so nothing ever has to be cleaned up), and a rebuild for
/// another size is one sweep. Sizes need not be powers of two: growing by half keeps between 45 and 80 % of the places
/// in use, so an entry costs 20 to 36 bytes whatever happened before.
#[derive(Default)]
pub(crate) struct Table {
    /// `home` preferred places, and a few more that the last of them may spill into.
    entries: Vec<Entry>,
    home: usize,
    len: usize,
    lists: Lists,
}

#[derive(Clone, Copy, Default)]
struct Entry {
    key: u64,
    /// Nobody: the place is empty.
    holders: Holders,
}

impl Table {
    /// Places of the smallest table.
    const SMALLEST: usize = 8;
    /// Bits of a key that chose the shard, and so say nothing here.
    pub(crate) const SHARD_BITS: u32 = 6;

    /// Blocks that somebody holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many endpoints hold a block.
    pub(crate) fn count(&self, key: u64) -> usize {
        self.holders(key).len()
    }

    /// The node of a block in one endpoint.
    pub(crate) fn node(&self, key: u64, slot: u32) -> Option<u32> {
        self.lists.get(self.holders(key), slot).map(Holder::node)
    }

    /// Slots of the endpoints that hold a block.
    pub(crate) fn each(&self, key: u64, mut visit: impl FnMut(u32)) {
        self.lists.each(self.holders(key), |holder| visit(holder.slot()));
    }

    /// Notes that an endpoint holds a block, as `node`; false (and nothing done) when it holds it already.
    pub(crate) fn insert(&mut self, key: u64, slot: u32, node: u32) -> bool {
        match self.find(key) {
            Ok(at) => {
                let change = self.lists.add(key, self.entries[at].holders, Holder::new(slot, node));
                self.apply(at, change)
            }
            Err(mut at) => {
                // At most four fifths full.
                if (self.len + 1) * 5 > self.home * 4 {
                    self.resize((self.home + self.home / 2).max(Self::SMALLEST));
                    at = self.find(key).unwrap_or_else(|gap| gap);
                }
                self.open(at, Entry { key, holders: Holders::one(Holder::new(slot, node)) });
                true
            }
        }
    }

    /// Notes that an endpoint holds a block no more; false when it did not.
    pub(crate) fn remove(&mut self, key: u64, slot: u32) -> bool {
        let Ok(at) = self.find(key) else { return false };
        let change = self.lists.remove(key, self.entries[at].holders, slot);
        let removed = self.apply(at, change);
        if self.entries[at].holders.is_nobody() {
            self.close(at);
            if self.home > Self::SMALLEST && self.len * 20 < self.home * 9 {
                self.resize((self.len * 3 / 2).max(Self::SMALLEST));
            }
        }
        removed
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>() + self.lists.memory_bytes()
    }

    fn holders(&self, key: u64) -> Holders {
        self.find(key).map_or(Holders::NOBODY, |at| self.entries[at].holders)
    }

    fn apply(&mut self, at: usize, change: Option<(Holders, Option<Moved>)>) -> bool {
        let Some((holders, moved)) = change else { return false };
        self.entries[at].holders = holders;
        if let Some(moved) = moved
            && let Ok(owner) = self.find(moved.key)
        {
            self.entries[owner].holders = moved.entry(self.entries[owner].holders);
        }
        true
    }

    /// Preferred place of a key: its share of the key space, times the number of places.
    fn preferred(&self, key: u64) -> usize {
        ((u128::from(key << Self::SHARD_BITS) * self.home as u128) >> 64) as usize
    }

    /// Where a key is, or where it would have to go.
    fn find(&self, key: u64) -> Result<usize, usize> {
        let mut at = self.preferred(key);
        loop {
            match self.entries.get(at) {
                Some(entry) if entry.holders.is_nobody() || entry.key > key => return Err(at),
                Some(entry) if entry.key == key => return Ok(at),
                Some(_) => at += 1,
                None => return Err(at),
            }
        }
    }

    /// Puts an entry where [`Table::find`] said that it has to go; the run that begins there moves to the right.
    fn open(&mut self, at: usize, entry: Entry) {
        let run = self.entries[at..].iter().take_while(|e| !e.holders.is_nobody()).count();
        if at + run == self.entries.len() {
            self.entries.reserve_exact(8);
            self.entries.push(Entry::default());
        }
        self.entries.copy_within(at..at + run, at + 1);
        self.entries[at] = entry;
        self.len += 1;
    }

    /// Empties a place; the run to the right of it moves back, as far as its entries are not where they prefer to be.
    fn close(&mut self, at: usize) {
        let displaced = |(i, e): (usize, &Entry)| !e.holders.is_nobody() && self.preferred(e.key) < at + 1 + i;
        let run = self.entries[at + 1..].iter().enumerate().take_while(|(i, e)| displaced((*i, *e))).count();
        self.entries.copy_within(at + 1..at + 1 + run, at);
        self.entries[at + run] = Entry::default();
        self.len -= 1;
    }

    fn resize(&mut self, home: usize) {
        let old = std::mem::take(&mut self.entries);
        self.home = home;
        // Displacements stay small at this fill; beyond these places `push` makes more.
        self.entries.reserve_exact(home + 8);
        self.entries.resize(home, Entry::default());
        let mut next = 0;
        for entry in old.into_iter().filter(|e| !e.holders.is_nobody()) {
            let at = self.preferred(entry.key).max(next);
            if at == self.entries.len() {
                self.entries.reserve_exact(8);
                self.entries.push(entry);
            } else {
                self.entries[at] = entry;
            }
            next = at + 1;
        }
    }

    /// Every block with its holders; panics where the table's own rules are broken.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Vec<(u64, u32, u32)> {
        let mut all = Vec::new();
        let mut before = None;
        let mut used = 0;
        for (at, entry) in self.entries.iter().enumerate().filter(|(_, e)| !e.holders.is_nobody()) {
            assert!(before < Some(entry.key), "sorted");
            before = Some(entry.key);
            used += 1;
            assert_eq!(self.find(entry.key), Ok(at));
            self.lists.each(entry.holders, |h| all.push((entry.key, h.slot(), h.node())));
        }
        assert_eq!(used, self.len);
        all
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn keys(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::from_fn(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Some((state ^ state >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15))
        })
    }

    #[test]
    fn a_table_behaves_like_a_map_of_sets() {
        let mut table = Table::default();
        let mut naive: BTreeMap<u64, BTreeMap<u32, u32>> = BTreeMap::new();
        for (step, random) in keys(1).take(60_000).enumerate() {
            // Few keys, some at the very ends of the key space.
            let key = match random % 700 {
                0 => 0,
                1 => u64::MAX >> Table::SHARD_BITS,
                n => n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> Table::SHARD_BITS,
            };
            let slot = (random >> 32) as u32 % 6;
            let holders = naive.entry(key).or_default();
            if (random >> 40) % 10 < if step / 10_000 % 2 == 0 { 7 } else { 2 } {
                assert_eq!(table.insert(key, slot, step as u32), !holders.contains_key(&slot));
                holders.entry(slot).or_insert(step as u32);
            } else {
                assert_eq!(table.remove(key, slot), holders.remove(&slot).is_some());
            }
            assert_eq!((table.count(key), table.node(key, slot)), (holders.len(), holders.get(&slot).copied()));
        }
        let want: Vec<_> =
            naive.iter().flat_map(|(key, set)| set.iter().map(|(slot, node)| (*key, *slot, *node))).collect();
        assert_eq!(table.check(), want);
        assert_eq!(table.len(), naive.values().filter(|set| !set.is_empty()).count());
    }

    #[test]
    fn an_entry_costs_at_most_36_bytes_while_the_table_grows_and_shrinks() {
        let mut table = Table::default();
        let all: Vec<u64> = keys(7).map(|key| key >> Table::SHARD_BITS).take(30_000).collect();
        let check = |table: &Table| {
            if table.len() > 1_000 {
                assert!(table.memory_bytes() <= table.len() * 36, "{} at {}", table.memory_bytes(), table.len());
            }
        };
        for key in &all {
            table.insert(*key, 1, 1);
            check(&table);
        }
        for key in &all {
            assert!(table.remove(*key, 1));
            check(&table);
        }
        assert!(table.memory_bytes() < 1_024 && table.check().is_empty());
    }

    #[test]
    fn keys_that_all_prefer_one_place_are_still_found() {
        let mut table = Table::default();
        let crowd: Vec<u64> = (0..500).map(|i| (u64::MAX >> Table::SHARD_BITS) - i).collect();
        for key in &crowd {
            assert!(table.insert(*key, 1, 1));
        }
        assert!(crowd.iter().all(|key| table.count(*key) == 1));
        for key in crowd.iter().rev() {
            assert!(table.remove(*key, 1));
        }
        assert!(table.check().is_empty());
    }
}
