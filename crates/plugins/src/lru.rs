//! Entries in the order of their last use. Every operation costs the logarithm of how many there are.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

/// Entries by key, least recently used first out. Looking at one does not use it.
#[derive(Debug)]
pub(crate) struct Lru<K, V = ()> {
    turn: u64,
    entries: HashMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
}

impl<K, V> Default for Lru<K, V> {
    fn default() -> Self {
        Self { turn: 0, entries: HashMap::new(), order: BTreeMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V> Lru<K, V> {
    /// Uses an entry: it is the last to go. What it was before; `None` when it is new.
    pub(crate) fn put(&mut self, key: K, value: V) -> Option<V> {
        self.turn += 1;
        self.order.insert(self.turn, key);
        let (before, value) = self.entries.insert(key, (self.turn, value))?;
        self.order.remove(&before);
        Some(value)
    }

    /// Uses an entry where there is room for so many, and tells whether it is new.
    pub(crate) fn touch(&mut self, key: K, capacity: usize) -> bool
    where
        V: Default,
    {
        let new = self.put(key, V::default()).is_none();
        while self.len() > capacity {
            let Some(oldest) = self.oldest() else { break };
            self.remove(&oldest);
        }
        new
    }

    /// An entry.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key).map(|(_, value)| value)
    }

    /// An entry, to be changed.
    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.entries.get_mut(key).map(|(_, value)| value)
    }

    /// When an entry was last used: a number that is greater than those of all uses before, and than 0.
    pub(crate) fn turn(&self, key: &K) -> Option<u64> {
        self.entries.get(key).map(|(turn, _)| *turn)
    }

    /// Lets go of an entry.
    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let (turn, value) = self.entries.remove(key)?;
        self.order.remove(&turn);
        Some(value)
    }

    /// The entry whose last use is the longest ago.
    pub(crate) fn oldest(&self) -> Option<K> {
        self.order.first_key_value().map(|(_, key)| *key)
    }

    /// All entries, the oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.order.values().filter_map(|key| Some((*key, self.get(key)?)))
    }

    /// How many entries there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_one_that_was_used_longest_ago_goes_first() {
        let mut lru = Lru::<u64>::default();
        let new = [1, 2, 3, 1, 4].map(|key| lru.touch(key, 3));
        assert_eq!(new, [true, true, true, false, true]);
        assert_eq!(lru.iter().map(|(key, ())| key).collect::<Vec<_>>(), [3, 1, 4]);
        assert!(lru.turn(&4) > lru.turn(&1) && lru.turn(&2).is_none());
        assert_eq!((lru.remove(&1), lru.remove(&1), lru.oldest()), (Some(()), None, Some(3)));
    }

    #[test]
    fn an_entry_that_is_put_again_has_its_new_value_and_place() {
        let mut lru = Lru::default();
        assert_eq!((lru.put('a', 1), lru.put('b', 2), lru.put('a', 3)), (None, None, Some(1)));
        if let Some(value) = lru.get_mut(&'b') {
            *value += 5;
        }
        assert_eq!(lru.iter().collect::<Vec<_>>(), [('b', &7), ('a', &3)]);
    }

    proptest! {
        #[test]
        fn it_holds_the_last_distinct_ones(used in prop::collection::vec(0u64..20, 0..100), capacity in 1usize..10) {
            let mut lru = Lru::<u64>::default();
            for &key in &used {
                lru.touch(key, capacity);
            }
            let mut want = Vec::new();
            for key in used.iter().rev() {
                if !want.contains(key) && want.len() < capacity {
                    want.push(*key);
                }
            }
            want.reverse();
            prop_assert_eq!(lru.iter().map(|(key, ())| key).collect::<Vec<_>>(), want);
            prop_assert_eq!(lru.len(), lru.order.len());
        }
    }
}
