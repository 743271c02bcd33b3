//! The list of endpoints: who joins, who leaves, who is told.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use pointsman_core::{Clock, EndpointName, Slot};

use crate::{Condition, Endpoint, EndpointMeta, EngineState, Health, Load, Snapshot};

/// What a write did to one endpoint.
#[derive(Clone, Debug)]
pub enum Change {
    /// It joined.
    Added(Arc<Endpoint>),
    /// Its description changed, its state was kept.
    Updated(Arc<Endpoint>),
    /// The name moved to another address: another engine, with nothing known about it.
    Replaced {
        /// The engine that left.
        old: Arc<Endpoint>,
        /// The engine that joined.
        new: Arc<Endpoint>,
    },
    /// It left.
    Removed(Arc<Endpoint>),
    /// It was there already, word for word.
    Unchanged(Arc<Endpoint>),
}

/// What listeners are told. A replaced endpoint is told as one that left and then one that was added.
#[derive(Clone, Debug)]
pub enum FleetEvent {
    /// An endpoint joined. Its slot may have had another owner before: reset what is kept under it.
    Added(Arc<Endpoint>),
    /// An endpoint's description changed; slot, id and state are the same.
    Updated(Arc<Endpoint>),
    /// An endpoint left. Its slot is reused when this was told and nobody holds the endpoint any more.
    Removed(Arc<Endpoint>),
}

/// Called for every event, in order, one at a time, on the writer's thread. May read the fleet, must not write to it
/// or subscribe.
pub type Listener = Box<dyn Fn(&FleetEvent) + Send + Sync>;

/// One pool of endpoints.
pub struct Fleet {
    clock: Arc<dyn Clock>,
    current: ArcSwap<Snapshot>,
    writer: Mutex<Writer>,
}

#[derive(Default)]
struct Writer {
    listeners: Vec<Listener>,
    next_id: u64,
    next_slot: u32,
    /// Slots whose endpoint left, each with a part of it that every holder of the endpoint also holds.
    retired: Vec<(Slot, Arc<Load>)>,
}

impl Writer {
    /// The lowest slot that nobody can write under any more, else a new one.
    fn take_slot(&mut self) -> Slot {
        let free = self.retired.iter_mut().enumerate();
        // `get_mut` succeeds for the last holder only, and makes what the others wrote before they let go visible here.
        let free = free.filter_map(|(at, (slot, load))| Arc::get_mut(load).map(|_| (*slot, at)));
        if let Some((slot, at)) = free.min() {
            self.retired.swap_remove(at);
            return slot;
        }
        let slot = Slot(self.next_slot);
        self.next_slot += 1;
        slot
    }

    fn join(&mut self, meta: EndpointMeta, clock: &dyn Clock) -> Arc<Endpoint> {
        self.next_id += 1;
        let health = Health::new(clock);
        health.set(Condition::Discovery, meta.not_ready.clone(), clock);
        Arc::new(Endpoint {
            slot: self.take_slot(),
            id: self.next_id,
            joined: clock.now(),
            meta: Arc::new(meta),
            engine: Arc::new(EngineState::default()),
            load: Arc::new(Load::default()),
            health: Arc::new(health),
        })
    }

    fn tell(&self, event: &FleetEvent) {
        for listener in &self.listeners {
            listener(event);
        }
    }
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("current", &self.current.load()).finish_non_exhaustive()
    }
}

impl Fleet {
    /// An empty fleet. The clock dates arrivals and changes of readiness.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, current: ArcSwap::from_pointee(Snapshot::default()), writer: Mutex::default() }
    }

    /// The endpoints now, to keep for the length of a request.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The endpoints now, for a short look: no reference count is touched. Do not hold it across a wait.
    pub fn load(&self) -> Guard<Arc<Snapshot>> {
        self.current.load()
    }

    /// Adds an endpoint or changes its description. The same name at another address is another engine: it starts with
    /// nothing known.
    pub fn upsert(&self, meta: EndpointMeta) -> Change {
        let mut writer = self.writer.lock();
        let name = meta.name.clone();
        let kept: Vec<_> = self.current.load().endpoints.clone();
        let mut changes = self.write(&mut writer, kept, vec![meta], &HashSet::from([name]));
        changes.pop().expect("one endpoint written, one change")
    }

    /// Takes an endpoint out; `None` when there is no such name.
    pub fn remove(&self, name: &EndpointName) -> Option<Arc<Endpoint>> {
        let mut writer = self.writer.lock();
        let kept: Vec<_> = self.current.load().endpoints.clone();
        match self.write(&mut writer, kept, Vec::new(), &HashSet::from([name.clone()])).pop() {
            Some(Change::Removed(endpoint)) => Some(endpoint),
            _ => None,
        }
    }

    /// Makes the list what `metas` says, in one step for readers. Returns what changed: those who left first, then the
    /// others in the order of `metas`; endpoints that stay as they are, are not listed. Of a name given twice, the
    /// last one counts.
    pub fn replace_all(&self, metas: Vec<EndpointMeta>) -> Vec<Change> {
        let mut writer = self.writer.lock();
        let kept: Vec<_> = self.current.load().endpoints.clone();
        let mut addressed: HashSet<EndpointName> = kept.iter().map(|e| e.name().clone()).collect();
        let mut place = HashMap::new();
        let mut unique: Vec<EndpointMeta> = Vec::with_capacity(metas.len());
        for meta in metas {
            addressed.insert(meta.name.clone());
            match place.get(&meta.name) {
                Some(&at) => unique[at] = meta,
                None => {
                    place.insert(meta.name.clone(), unique.len());
                    unique.push(meta);
                }
            }
        }
        let mut changes = self.write(&mut writer, kept, unique, &addressed);
        changes.retain(|change| !matches!(change, Change::Unchanged(_)));
        changes
    }

    /// Tells `listener` of every change from now on, and first of every endpoint that is there, as added.
    pub fn subscribe(&self, listener: Listener) {
        let mut writer = self.writer.lock();
        for endpoint in &self.current.load().endpoints {
            listener(&FleetEvent::Added(Arc::clone(endpoint)));
        }
        writer.listeners.push(listener);
    }

    /// The one place where the list changes. Every name in `addressed` ends as `metas` says, and leaves when `metas`
    /// does not name it.
    ///
    /// The new list is published before anyone is told, whole: replacing every endpoint at once must not show an empty
    /// fleet. Removals are told before additions, so that a listener which goes by name does not drop a successor.
    fn write(
        &self,
        writer: &mut Writer,
        mut endpoints: Vec<Arc<Endpoint>>,
        metas: Vec<EndpointMeta>,
        addressed: &HashSet<EndpointName>,
    ) -> Vec<Change> {
        let wanted: HashSet<EndpointName> = metas.iter().map(|meta| meta.name.clone()).collect();
        let (mut left, mut changes, mut news) = (Vec::new(), Vec::new(), Vec::new());
        endpoints.retain(|endpoint| {
            let stays = !addressed.contains(endpoint.name()) || wanted.contains(endpoint.name());
            if !stays {
                left.push(Arc::clone(endpoint));
                changes.push(Change::Removed(Arc::clone(endpoint)));
            }
            stays
        });
        let place: HashMap<EndpointName, usize> =
            endpoints.iter().enumerate().map(|(at, endpoint)| (endpoint.name().clone(), at)).collect();
        let mut moved = HashSet::new();
        let mut joined = Vec::new();
        for meta in metas.into_iter().map(EndpointMeta::seal) {
            let old = place.get(&meta.name).map(|&at| (at, Arc::clone(&endpoints[at])));
            match old {
                None => {
                    let new = writer.join(meta, &*self.clock);
                    joined.push(Arc::clone(&new));
                    news.push(FleetEvent::Added(Arc::clone(&new)));
                    changes.push(Change::Added(new));
                }
                Some((_, old)) if *old.meta == meta => changes.push(Change::Unchanged(old)),
                Some((at, old)) if old.meta.is_same_engine(&meta) => {
                    old.health.set(Condition::Discovery, meta.not_ready.clone(), &*self.clock);
                    let new = Arc::new(old.described(meta));
                    endpoints[at] = Arc::clone(&new);
                    news.push(FleetEvent::Updated(Arc::clone(&new)));
                    changes.push(Change::Updated(new));
                }
                Some((_, old)) => {
                    let new = writer.join(meta, &*self.clock);
                    moved.insert(old.id);
                    joined.push(Arc::clone(&new));
                    left.push(Arc::clone(&old));
                    news.push(FleetEvent::Added(Arc::clone(&new)));
                    changes.push(Change::Replaced { old, new });
                }
            }
        }
        if left.is_empty() && news.is_empty() {
            return changes;
        }
        endpoints.retain(|endpoint| !moved.contains(&endpoint.id));
        endpoints.extend(joined);
        let version = self.current.load().version + 1;
        self.current.store(Arc::new(Snapshot::new(version, endpoints)));
        for endpoint in left {
            endpoint.health.leave(&*self.clock);
            writer.tell(&FleetEvent::Removed(Arc::clone(&endpoint)));
            writer.retired.push((endpoint.slot, Arc::clone(&endpoint.load)));
        }
        for event in &news {
            writer.tell(event);
        }
        changes
    }
}

#[cfg(test)]
mod tests;
