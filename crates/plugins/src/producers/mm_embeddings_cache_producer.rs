//! `mm-embeddings-cache-producer`: which images, videos and sounds each endpoint is believed to hold encoded.
//!
//! The items of a request are its distinct multimodal contents, each of size 1. Every endpoint has an LRU of items,
//! `cacheSizeInMBPerServer` megabytes at 2 MiB an item. Matching an item does not touch it; sending a request does: to
//! the endpoint that serves, and to those that encode for it. A request without items is not matched. Source: plugin
//! specification 9.7 and its `Wart:` line.

use crate::build::{Build, Instance};
use crate::learned::{DUMPED, Learned};
use crate::row::{Kind, Need, Row, Stability};
use parking_lot::{Mutex, RwLock};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Nanos;
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_scheduling::{
    AddedHeaders, Chosen, ColumnId, DataKind, EncoderMatch, Facts, Held, Hooks, MediaItem, Producer, Request, Role,
    Scope, StagePick, Termination,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Items in a megabyte of cache: one is taken to be 2 MiB.
const MB_PER_ITEM: u64 = 2;
const DEFAULT_MB: u64 = 4096;

/// The items that one endpoint holds, least recently used first out.
#[derive(Debug, Default)]
struct Items {
    turn: u64,
    turn_of: HashMap<u64, u64>,
    by_turn: BTreeMap<u64, u64>,
}

impl Items {
    /// Makes an item the last to go. Whether it is new.
    fn touch(&mut self, item: u64, capacity: usize) -> bool {
        self.turn += 1;
        let old = self.turn_of.insert(item, self.turn);
        if let Some(old) = old {
            self.by_turn.remove(&old);
        }
        self.by_turn.insert(self.turn, item);
        while self.turn_of.len() > capacity {
            let Some((_, oldest)) = self.by_turn.pop_first() else { break };
            self.turn_of.remove(&oldest);
        }
        old.is_none()
    }

    fn forget(&mut self, item: u64) {
        if let Some(turn) = self.turn_of.remove(&item) {
            self.by_turn.remove(&turn);
        }
    }
}

/// Items by slot. The id tells an endpoint from the one that had the slot before.
#[derive(Debug, Default)]
pub struct EncoderCaches(RwLock<Vec<Slotted>>);

type Slotted = Option<(u64, Arc<Mutex<Items>>)>;

impl EncoderCaches {
    fn known(&self, endpoint: &Endpoint) -> Option<Arc<Mutex<Items>>> {
        match self.0.read().get(endpoint.slot.index()) {
            Some(Some((id, items))) if *id == endpoint.id => Some(Arc::clone(items)),
            _ => None,
        }
    }

    fn of(&self, endpoint: &Endpoint) -> Arc<Mutex<Items>> {
        if let Some(known) = self.known(endpoint) {
            return known;
        }
        let slot = endpoint.slot.index();
        let mut slots = self.0.write();
        if slots.len() <= slot {
            slots.resize(slot + 1, None);
        }
        match &mut slots[slot] {
            Some((id, items)) if *id == endpoint.id => Arc::clone(items),
            other => Arc::clone(&other.insert((endpoint.id, Arc::default())).1),
        }
    }
}

impl Learned for EncoderCaches {
    fn endpoint_left(&self, endpoint: &Endpoint) {
        if let Some(slot) = self.0.write().get_mut(endpoint.slot.index())
            && slot.as_ref().is_some_and(|(id, _)| *id == endpoint.id)
        {
            *slot = None;
        }
    }

    fn dump(&self, fleet: &Snapshot) -> Option<serde_json::Value> {
        let count = |e: &Arc<Endpoint>| Some((e.name().to_string(), self.known(e)?.lock().turn_of.len()));
        let known: Vec<(String, usize)> = fleet.endpoints.iter().filter_map(count).collect();
        let shown = known.iter().take(DUMPED);
        let pods: Vec<serde_json::Value> =
            shown.clone().map(|(pod, items)| serde_json::json!({"pod": pod, "items": items})).collect();
        let names: Vec<&String> = shown.map(|(pod, _)| pod).collect();
        Some(serde_json::json!({
            "podList": names, "totalKnownPods": known.len(), "pods": pods, "totalPods": known.len(), "maxPods": DUMPED,
        }))
    }
}

/// Matches items, and credits endpoints with them.
#[derive(Debug)]
pub struct MmEmbeddingsCacheProducer {
    /// Instance name.
    pub name: Arc<str>,
    capacity: usize,
    column: Option<ColumnId<EncoderMatch>>,
    caches: Arc<EncoderCaches>,
}

/// The distinct items of a request, in order.
#[must_use]
pub fn distinct(items: &[MediaItem]) -> Vec<&MediaItem> {
    let mut seen: Vec<&MediaItem> = Vec::with_capacity(items.len().min(64));
    let mut hashes: Vec<u64> = items.iter().map(|i| i.hash).collect();
    hashes.sort_unstable();
    hashes.dedup();
    for item in items {
        if let Ok(at) = hashes.binary_search(&item.hash) {
            hashes.remove(at);
            seen.push(item);
        }
    }
    seen
}

impl MmEmbeddingsCacheProducer {
    /// The column it fills.
    #[must_use]
    pub fn column(&self) -> Option<ColumnId<EncoderMatch>> {
        self.column
    }

    /// Calls `held` with each of `items` that an endpoint is believed to hold.
    pub fn each_held<'a>(&self, endpoint: &Endpoint, items: &[&'a MediaItem], mut held: impl FnMut(&'a MediaItem)) {
        if let Some(known) = self.caches.known(endpoint) {
            let known = known.lock();
            items.iter().filter(|item| known.turn_of.contains_key(&item.hash)).for_each(|item| held(item));
        }
    }
}

impl Producer for MmEmbeddingsCacheProducer {
    fn produce(&self, request: &Request, all: Scope<'_>, _: Nanos, facts: &mut Facts) {
        let (Some(column), false) = (self.column, request.items.is_empty()) else { return };
        let items = distinct(&request.items);
        let matched = |endpoint: &Endpoint| {
            let mut matched = 0;
            self.each_held(endpoint, &items, |_| matched += 1);
            EncoderMatch { matched, total: items.len() as u64 }
        };
        facts.fill(column, all.iter().map(|(_, c)| matched(c.endpoint)).collect());
    }
}

impl Hooks for MmEmbeddingsCacheProducer {
    fn chosen(&self, chosen: &Chosen<'_>, _: &mut AddedHeaders) -> Option<Box<dyn Held>> {
        if chosen.request.items.is_empty() {
            return None;
        }
        let encode = StagePick::of(chosen.others, Role::Encode).map(|stage| &stage.endpoints[..]);
        let endpoints = std::iter::once(chosen.endpoint).chain(encode.unwrap_or_default());
        Some(Box::new(Credit {
            items: distinct(&chosen.request.items).iter().map(|item| item.hash).collect(),
            capacity: self.capacity,
            caches: Arc::clone(&self.caches),
            endpoints: endpoints.map(|e| (Arc::clone(e), Vec::new())).collect(),
        }))
    }
}

/// What endpoints are credited with once the request is on its way, to be taken back if it goes elsewhere.
struct Credit {
    items: Vec<u64>,
    capacity: usize,
    caches: Arc<EncoderCaches>,
    /// Each with the items that were new to it.
    endpoints: Vec<(Arc<Endpoint>, Vec<u64>)>,
}

impl Held for Credit {
    fn sent(&mut self) {
        for (endpoint, new) in self.endpoints.iter_mut().filter(|(e, _)| !e.left()) {
            let cache = self.caches.of(endpoint);
            let mut cache = cache.lock();
            new.extend(self.items.iter().filter(|&&item| cache.touch(item, self.capacity)));
            drop(cache);
            if endpoint.left() {
                // The news of it came before these, and found nothing to remove.
                self.caches.endpoint_left(endpoint);
            }
        }
    }

    fn withdrawn(self: Box<Self>) {
        for (endpoint, new) in &self.endpoints {
            if let Some(cache) = self.caches.known(endpoint) {
                let mut cache = cache.lock();
                new.iter().for_each(|&item| cache.forget(item));
            }
        }
    }

    fn ended(self: Box<Self>, _: Termination) {}
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new(
        "cacheSizeInMBPerServer",
        ParamKind::INTEGER,
        "Encoder cache of an endpoint in megabytes, at 2 MiB an item; 0 or less means 4096.",
    )
    .default("4096")],
    needs: &[Need::required(DataKind::TokenizedPrompt)],
    makes: &[DataKind::EncoderMatch],
    default_producer: true,
    formula: "matched = distinct items of the request that were sent to the endpoint and are still in its LRU",
    build: Some(build),
    ..Row::new(
        "mm-embeddings-cache-producer",
        &[Kind::Producer, Kind::Hook],
        Stability::Beta,
        "Learns which images, videos and sounds each endpoint holds encoded.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let megabytes = u64::try_from(b.params.i64("cacheSizeInMBPerServer")).unwrap_or(0);
    if megabytes == 0 {
        b.corrected("cacheSizeInMBPerServer", "4096");
    }
    let megabytes = if megabytes == 0 { DEFAULT_MB } else { megabytes };
    let producer = Arc::new(MmEmbeddingsCacheProducer {
        name: Arc::clone(&b.name),
        capacity: usize::try_from(megabytes / MB_PER_ITEM).unwrap_or(usize::MAX).clamp(1, 1 << 30),
        column: b.own(),
        caches: b.learned(EncoderCaches::default),
    });
    Instance {
        producer: Some(producer.clone()),
        hooks: Some(producer.clone()),
        encoder: Some(producer),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, chosen, endpoint};
    use proptest::prelude::*;

    fn item(hash: u64) -> MediaItem {
        MediaItem { modality: "image".into(), hash }
    }

    fn bench(items: &[u64]) -> (Bench, MmEmbeddingsCacheProducer) {
        let (mut bench, column) = Bench::new(["a", "b", "e"].map(endpoint)).columns(|c| c.column());
        bench.request.items = items.iter().map(|&hash| item(hash)).collect();
        let (name, caches) = ("p".into(), Arc::default());
        (bench, MmEmbeddingsCacheProducer { name, capacity: 3, column: Some(column), caches })
    }

    fn matched(bench: &mut Bench, producer: &MmEmbeddingsCacheProducer) -> Option<Vec<(u64, u64)>> {
        let (column, request) = (producer.column.expect("a column"), bench.request.clone());
        let mut facts = std::mem::take(&mut bench.facts);
        bench.with(|_, all| producer.produce(&request, all, Nanos(0), &mut facts));
        let told = facts.column(column).map(|c| c.iter().map(|m| (m.matched, m.total)).collect());
        bench.facts = facts;
        told
    }

    #[test]
    fn an_endpoint_holds_what_was_sent_to_it() {
        let (mut bench, producer) = bench(&[2, 3, 3]);
        assert_eq!(matched(&mut bench, &producer), Some(vec![(0, 2); 3]));
        let mut held = chosen(&bench, &producer, 1, &[]).1.expect("it is credited");
        assert_eq!(matched(&mut bench, &producer), Some(vec![(0, 2); 3]), "not before it is sent");
        held.sent();
        held.ended(Termination::Natural);
        bench.request.items = vec![item(1), item(2), item(3)];
        assert_eq!(matched(&mut bench, &producer), Some(vec![(0, 3), (2, 3), (0, 3)]));
    }

    #[test]
    fn who_encodes_is_credited_too_and_what_is_withdrawn_is_forgotten() {
        let (mut bench, producer) = bench(&[7]);
        let encode: &[(&str, Role, &[usize])] = &[("encode", Role::Encode, &[2])];
        let mut held = chosen(&bench, &producer, 0, encode).1.expect("it is credited");
        held.sent();
        assert_eq!(matched(&mut bench, &producer), Some(vec![(1, 1), (0, 1), (1, 1)]));
        held.withdrawn();
        assert_eq!(matched(&mut bench, &producer), Some(vec![(0, 1); 3]));
    }

    #[test]
    fn a_request_without_items_is_neither_matched_nor_credited() {
        let (mut bench, producer) = bench(&[]);
        assert_eq!(matched(&mut bench, &producer), None);
        assert!(chosen(&bench, &producer, 0, &[]).1.is_none());
    }

    #[test]
    fn an_endpoint_that_left_takes_its_items_along() {
        let (mut bench, producer) = bench(&[7]);
        chosen(&bench, &producer, 0, &[]).1.expect("it is credited").sent();
        producer.caches.endpoint_left(&bench.endpoints()[0]);
        assert_eq!(matched(&mut bench, &producer), Some(vec![(0, 1); 3]));
    }

    #[test]
    fn the_item_that_was_sent_longest_ago_goes_first() {
        let mut items = Items::default();
        for item in [1, 2, 3, 1, 4] {
            items.touch(item, 3);
        }
        let mut left: Vec<u64> = items.turn_of.keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [1, 3, 4]);
    }

    proptest! {
        #[test]
        fn an_lru_holds_the_last_distinct_items(touched in prop::collection::vec(0u64..20, 0..100), capacity in 1usize..10) {
            let mut items = Items::default();
            for &item in &touched {
                items.touch(item, capacity);
            }
            let mut want = Vec::new();
            for item in touched.iter().rev() {
                if !want.contains(item) && want.len() < capacity {
                    want.push(*item);
                }
            }
            want.reverse();
            prop_assert_eq!(items.by_turn.values().copied().collect::<Vec<_>>(), want);
            prop_assert_eq!(items.turn_of.len(), items.by_turn.len());
        }

        #[test]
        fn distinct_items_keep_their_order(hashes in prop::collection::vec(0u64..10, 0..30)) {
            let items: Vec<MediaItem> = hashes.iter().map(|&h| item(h)).collect();
            let mut want: Vec<u64> = Vec::new();
            hashes.iter().for_each(|h| if !want.contains(h) { want.push(*h) });
            prop_assert_eq!(distinct(&items).iter().map(|i| i.hash).collect::<Vec<_>>(), want);
        }
    }
}
