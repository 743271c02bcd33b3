//! One value of each endpoint, by its slot. Read without a lock; made when it is first asked for.

use arc_swap::{ArcSwap, Guard};
use pointsman_fleet::Endpoint;
use std::sync::Arc;

/// Values by slot. The id tells an endpoint from the one that had the slot before.
type Slots<T> = Vec<Option<(u64, Arc<T>)>>;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct BySlot<T>(ArcSwap<Slots<T>>);

/// All values, as they were at one moment.
pub(crate) struct View<T>(Guard<Arc<Slots<T>>>);

impl<T> View<T> {
    /// The value of an endpoint, where it has one.
    pub(crate) fn get(&self, endpoint: &Endpoint) -> Option<&Arc<T>> {
        find(&self.0, endpoint)
    }
}

fn find<'a, T>(slots: &'a Slots<T>, endpoint: &Endpoint) -> Option<&'a Arc<T>> {
    slots.get(endpoint.slot.index())?.as_ref().filter(|(id, _)| *id == endpoint.id).map(|(_, value)| value)
}

impl<T> Default for BySlot<T> {
    fn default() -> Self {
        Self(ArcSwap::from_pointee(Vec::new()))
    }
}

impl<T: Default> BySlot<T> {
    /// All values.
    pub(crate) fn view(&self) -> View<T> {
        View(self.0.load())
    }

    /// The value of an endpoint, where it has one.
    pub(crate) fn known(&self, endpoint: &Endpoint) -> Option<Arc<T>> {
        self.view().get(endpoint).cloned()
    }

    /// The value of an endpoint, made where it has none.
    pub(crate) fn of(&self, endpoint: &Endpoint) -> Arc<T> {
        if let Some(known) = self.known(endpoint) {
            return known;
        }
        let (slot, mut value) = (endpoint.slot.index(), Arc::<T>::default());
        self.0.rcu(|slots| {
            if let Some(known) = find(slots, endpoint) {
                value = Arc::clone(known);
                return Arc::clone(slots);
            }
            let mut slots = Vec::clone(slots);
            slots.resize(slots.len().max(slot + 1), None);
            slots[slot] = Some((endpoint.id, Arc::clone(&value)));
            Arc::new(slots)
        });
        value
    }

    /// Lets go of the value of an endpoint; not of that of the next one in its slot.
    pub(crate) fn remove(&self, endpoint: &Endpoint) {
        self.0.rcu(|slots| {
            if find(slots, endpoint).is_none() {
                return Arc::clone(slots);
            }
            let mut slots = Vec::clone(slots);
            slots[endpoint.slot.index()] = None;
            Arc::new(slots)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn every_endpoint_has_its_own_value_and_keeps_it_until_it_leaves() {
        let bench = Bench::new(["a", "b", "c"].map(endpoint));
        let [a, b, c] = [0, 1, 2].map(|n| Arc::clone(&bench.endpoints()[n]));
        let values = BySlot::<AtomicU64>::default();
        assert!(values.known(&c).is_none());
        values.of(&c).store(7, Ordering::Relaxed);
        values.of(&a).store(5, Ordering::Relaxed);
        let view = values.view();
        let read = |e: &Endpoint| view.get(e).map(|v| v.load(Ordering::Relaxed));
        assert_eq!((read(&a), read(&b), read(&c)), (Some(5), None, Some(7)));
        values.remove(&b);
        values.remove(&a);
        assert!(values.known(&a).is_none() && Arc::ptr_eq(&values.of(&c), &values.of(&c)));
    }

    #[test]
    fn a_slot_that_is_reused_does_not_hand_on_its_value() {
        let before = Bench::new(["a"].map(endpoint));
        let after = Bench::new(["b", "c"].map(endpoint));
        let of = &after.endpoints()[1];
        let next = Endpoint {
            slot: before.endpoints()[0].slot,
            id: of.id + 1_000,
            joined: of.joined,
            meta: Arc::clone(&of.meta),
            engine: Arc::clone(&of.engine),
            load: Arc::clone(&of.load),
            health: Arc::clone(&of.health),
        };
        let values = BySlot::<AtomicU64>::default();
        values.of(&before.endpoints()[0]).store(5, Ordering::Relaxed);
        assert!(values.known(&next).is_none());
        assert_eq!(values.of(&next).load(Ordering::Relaxed), 0);
        values.remove(&before.endpoints()[0]);
        assert!(values.known(&next).is_some(), "the one that left has no say any more");
    }
}
