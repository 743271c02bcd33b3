//! A map that grows rarely and is read without a lock.

use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::hash::Hash;

/// Values by key. A new key copies the map; so there should be few, or they should come slowly.
#[derive(Debug)]
pub(super) struct Grown<K, V>(ArcSwap<HashMap<K, V>>);

impl<K, V> Default for Grown<K, V> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(HashMap::new()))
    }
}

impl<K: Clone + Eq + Hash, V: Clone> Grown<K, V> {
    /// The value of a key, made by `new` where there is none. Of several that are made at the same time, all get the same one.
    pub(super) fn of(&self, key: &K, new: impl FnOnce() -> V) -> V {
        if let Some(known) = self.0.load().get(key) {
            return known.clone();
        }
        let mut value = new();
        self.0.rcu(|map| {
            if let Some(known) = map.get(key) {
                value = known.clone();
                return map.clone();
            }
            let mut map = HashMap::clone(map);
            map.insert(key.clone(), value.clone());
            map.into()
        });
        value
    }

    /// Lets go of a key, and gives its value.
    pub(super) fn remove(&self, key: &K) -> Option<V> {
        let before = self.0.rcu(|map| {
            if !map.contains_key(key) {
                return map.clone();
            }
            let mut map = HashMap::clone(map);
            map.remove(key);
            map.into()
        });
        before.get(key).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_value_is_made_once_and_goes_once() {
        let grown = Grown::<u64, Arc<str>>::default();
        let first = grown.of(&1, || "one".into());
        assert!(Arc::ptr_eq(&first, &grown.of(&1, || unreachable!("it is there"))));
        grown.of(&2, || "two".into());
        assert_eq!((grown.remove(&1), grown.remove(&1)), (Some(first), None));
        assert_eq!(&*grown.of(&2, || unreachable!("it is there")), "two");
    }

    #[test]
    fn those_who_ask_at_the_same_time_get_the_same_value() {
        let grown = Grown::<u64, Arc<u64>>::default();
        let made: Vec<Vec<Arc<u64>>> = std::thread::scope(|threads| {
            let ask = || (0..200).map(|n| grown.of(&n, || Arc::new(n))).collect();
            let threads: Vec<_> = (0..4).map(|_| threads.spawn(ask)).collect();
            threads.into_iter().map(|t| t.join().expect("it ends")).collect()
        });
        assert!(made.iter().all(|all| all.iter().zip(&made[0]).all(|(a, b)| Arc::ptr_eq(a, b))));
    }
}
