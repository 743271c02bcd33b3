//! Who holds a block, in eight bytes where one endpoint does.

/// An endpoint that holds a block, and its node there. Ordered by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Holder(u64);

impl Holder {
    /// Slots must be below this.
    pub(crate) const SLOTS: u32 = 1 << 24;

    pub(crate) fn new(slot: u32, node: u32) -> Self {
        debug_assert!(slot < Self::SLOTS, "slots that do not fit are refused at the door");
        Self(u64::from(slot) << 32 | u64::from(node))
    }

    pub(crate) fn slot(self) -> u32 {
        (self.0 >> 32) as u32
    }

    pub(crate) fn node(self) -> u32 {
        self.0 as u32
    }
}

/// The holders of one block: nobody, one endpoint, or a list in [`Lists`].
///
/// Bits 62..64 are a tag. One holder is kept in place. Of a list, bits 57..62 are its class, bits 32..57 its length,
/// bits 0..32 its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Holders(u64);

const ONE: u64 = 1 << 62;
const LIST: u64 = 2 << 62;

impl Holders {
    pub(crate) const NOBODY: Self = Self(0);

    pub(crate) fn one(holder: Holder) -> Self {
        Self(ONE | holder.0)
    }

    fn list(class: usize, len: usize, number: usize) -> Self {
        Self(LIST | (class as u64) << 57 | (len as u64) << 32 | number as u64)
    }

    pub(crate) fn is_nobody(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn len(self) -> usize {
        match self.0 >> 62 {
            0 => 0,
            1 => 1,
            _ => (self.0 >> 32) as usize & ((1 << 25) - 1),
        }
    }

    /// The one holder, where it is kept in place.
    fn single(self) -> Option<Holder> {
        (self.0 >> 62 == 1).then_some(Holder(self.0 & !ONE))
    }

    fn class(self) -> usize {
        (self.0 >> 57) as usize & 31
    }

    fn number(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A list that got another number: the entry of its block must be told.
pub(crate) struct Moved {
    /// Key of the block.
    pub(crate) key: u64,
    number: usize,
}

impl Moved {
    /// What the block's entry becomes.
    pub(crate) fn entry(&self, before: Holders) -> Holders {
        Holders::list(before.class(), before.len(), self.number)
    }
}

/// Lists of two and more holders, sorted by slot.
///
/// A list of class `c` has room for `2^c` holders, after one word with the key of its block. Lists of one class lie
/// side by side, without holes: the last one moves into the place of one that goes. So memory follows the lists that
/// exist, whatever happened before.
#[derive(Default)]
pub(crate) struct Lists {
    classes: Vec<Vec<u64>>,
}

impl Lists {
    /// The holder in `slot`.
    pub(crate) fn get(&self, holders: Holders, slot: u32) -> Option<Holder> {
        if let Some(holder) = holders.single() {
            return (holder.slot() == slot).then_some(holder);
        }
        let list = self.slice(holders);
        let at = list.binary_search_by_key(&slot, |h| Holder(*h).slot()).ok()?;
        Some(Holder(list[at]))
    }

    /// Every holder, by slot.
    pub(crate) fn each(&self, holders: Holders, mut visit: impl FnMut(Holder)) {
        match holders.single() {
            Some(holder) => visit(holder),
            None => self.slice(holders).iter().for_each(|h| visit(Holder(*h))),
        }
    }

    /// Adds a holder; `None` when the slot holds the block already.
    #[must_use]
    pub(crate) fn add(&mut self, key: u64, holders: Holders, new: Holder) -> Option<(Holders, Option<Moved>)> {
        if holders.is_nobody() {
            return Some((Holders::one(new), None));
        }
        if let Some(have) = holders.single() {
            let list = [have.min(new).0, have.max(new).0];
            return (have.slot() != new.slot()).then(|| (self.make(key, 1, &list), None));
        }
        let list = self.slice(holders);
        let at = list.binary_search_by_key(&new.slot(), |h| Holder(*h).slot()).err()?;
        if list.len() < 1 << holders.class() {
            let (from, len) = (self.start(holders), holders.len());
            let words = &mut self.classes[holders.class()];
            words.copy_within(from + at..from + len, from + at + 1);
            words[from + at] = new.0;
            return Some((Holders::list(holders.class(), len + 1, holders.number()), None));
        }
        let mut list = list.to_vec();
        list.insert(at, new.0);
        let moved = self.drop_list(holders);
        Some((self.make(key, holders.class() + 1, &list), moved))
    }

    /// Takes a holder out; `None` when the slot does not hold the block.
    #[must_use]
    pub(crate) fn remove(&mut self, key: u64, holders: Holders, slot: u32) -> Option<(Holders, Option<Moved>)> {
        if holders.is_nobody() {
            return None;
        }
        if let Some(have) = holders.single() {
            return (have.slot() == slot).then_some((Holders::NOBODY, None));
        }
        let list = self.slice(holders);
        let at = list.binary_search_by_key(&slot, |h| Holder(*h).slot()).ok()?;
        let (class, left) = (holders.class(), list.len() - 1);
        if left == 1 {
            let other = Holder(list[1 - at]);
            return Some((Holders::one(other), self.drop_list(holders)));
        }
        // Not at half: a list whose length swings around a power of two would be copied each time. The smallest cost
        // nothing to copy.
        if left <= if class == 2 { 2 } else { (3 << class) / 8 } {
            let mut list = list.to_vec();
            list.remove(at);
            let moved = self.drop_list(holders);
            return Some((self.make(key, class - 1, &list), moved));
        }
        let from = self.start(holders);
        self.classes[class].copy_within(from + at + 1..from + left + 1, from + at);
        Some((Holders::list(class, left, holders.number()), None))
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        let words: usize = self.classes.iter().map(Vec::capacity).sum();
        words * 8 + self.classes.capacity() * size_of::<Vec<u64>>()
    }

    fn stride(class: usize) -> usize {
        1 + (1 << class)
    }

    /// Index of a list's first holder.
    fn start(&self, holders: Holders) -> usize {
        holders.number() * Self::stride(holders.class()) + 1
    }

    fn slice(&self, holders: Holders) -> &[u64] {
        if holders.is_nobody() {
            return &[];
        }
        let from = self.start(holders);
        &self.classes[holders.class()][from..from + holders.len()]
    }

    fn make(&mut self, key: u64, class: usize, list: &[u64]) -> Holders {
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Vec::new);
        }
        let (words, stride) = (&mut self.classes[class], Self::stride(class));
        let number = words.len() / stride;
        if words.capacity() - words.len() < stride {
            // A quarter at a time: doubling would cost half of the memory in slack.
            words.reserve_exact(stride * (1 + number / 4));
        }
        words.push(key);
        words.extend_from_slice(list);
        words.resize((number + 1) * stride, 0);
        Holders::list(class, list.len(), number)
    }

    /// Drops a list; the last of its class takes its place.
    fn drop_list(&mut self, holders: Holders) -> Option<Moved> {
        let stride = Self::stride(holders.class());
        let words = &mut self.classes[holders.class()];
        let (to, last) = (holders.number() * stride, words.len() - stride);
        let moved = (to != last).then(|| {
            words.copy_within(last.., to);
            words[to]
        });
        words.truncate(last);
        if words.capacity() > words.len() * 3 / 2 + 4 * stride {
            words.shrink_to(words.len() * 5 / 4);
        }
        moved.map(|key| Moved { key, number: holders.number() })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// One owner, or several with `Moved` obeyed, as the table does it.
    #[derive(Default)]
    struct Owners {
        lists: Lists,
        entries: BTreeMap<u64, Holders>,
    }

    impl Owners {
        fn apply(&mut self, key: u64, change: Option<(Holders, Option<Moved>)>) -> bool {
            let Some((holders, moved)) = change else { return false };
            self.entries.insert(key, holders);
            if let Some(moved) = moved {
                assert_ne!(moved.key, key);
                let before = self.entries[&moved.key];
                self.entries.insert(moved.key, moved.entry(before));
            }
            true
        }

        fn add(&mut self, key: u64, slot: u32) -> bool {
            let have = self.entries.get(&key).copied().unwrap_or_default();
            let change = self.lists.add(key, have, Holder::new(slot, slot + 1000));
            self.apply(key, change)
        }

        fn remove(&mut self, key: u64, slot: u32) -> bool {
            let have = self.entries.get(&key).copied().unwrap_or_default();
            let change = self.lists.remove(key, have, slot);
            self.apply(key, change)
        }

        fn slots(&self, key: u64) -> Vec<u32> {
            let mut slots = Vec::new();
            if let Some(holders) = self.entries.get(&key).filter(|h| !h.is_nobody()) {
                self.lists.each(*holders, |h| {
                    assert_eq!(h.node(), h.slot() + 1000);
                    slots.push(h.slot());
                });
            }
            slots
        }
    }

    #[test]
    fn holders_are_a_sorted_set_of_slots() {
        let mut owners = Owners::default();
        for slot in [7, 3, Holder::SLOTS - 1, 0, 5] {
            assert!(owners.add(1, slot));
            assert!(!owners.add(1, slot), "held already");
        }
        assert_eq!(owners.slots(1), [0, 3, 5, 7, Holder::SLOTS - 1]);
        assert!(!owners.remove(1, 4));
        for slot in [3, 0, Holder::SLOTS - 1, 7] {
            assert!(owners.remove(1, slot));
        }
        assert_eq!(owners.slots(1), [5]);
        assert!(owners.remove(1, 5) && !owners.remove(1, 5));
        assert!(owners.entries[&1].is_nobody());
    }

    #[test]
    fn lists_of_many_owners_stay_apart_and_leave_no_holes() {
        let mut owners = Owners::default();
        let mut naive: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let mut state = 1u64;
        for step in 0..40_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (key, slot) = (state >> 60, (state >> 40) as u32 % 50);
            let want = naive.entry(key).or_default();
            let at = want.binary_search(&slot);
            // Waves of growth and of decline.
            if (state >> 20) % 10 < if step / 5_000 % 2 == 0 { 7 } else { 3 } {
                assert_eq!(owners.add(key, slot), at.is_err());
                if let Err(at) = at {
                    want.insert(at, slot);
                }
            } else {
                assert_eq!(owners.remove(key, slot), at.is_ok());
                if let Ok(at) = at {
                    want.remove(at);
                }
            }
        }
        for (key, want) in &naive {
            assert_eq!(owners.slots(*key), *want);
        }
        let lists = naive.values().filter(|l| l.len() > 1).count();
        let stored: usize = owners.lists.classes.iter().enumerate().map(|(c, w)| w.len() / Lists::stride(c)).sum();
        assert_eq!(stored, lists);
        for (key, slots) in naive {
            slots.into_iter().for_each(|slot| assert!(owners.remove(key, slot)));
        }
        assert!(owners.lists.classes.iter().all(Vec::is_empty));
    }
}
