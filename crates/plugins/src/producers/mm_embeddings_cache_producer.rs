//! `mm-embeddings-cache-producer`: which images, videos and sounds each endpoint is believed to hold encoded.
//!
//! The items of a request are its distinct multimodal contents, each of size 1. Every endpoint has an LRU of items,
//! `cacheSizeInMBPerServer` megabytes at 2 MiB an item. Matching an item does not touch it; sending a request does: to
//! the endpoint that serves, and to those that encode for it. A request without items is not matched. Source: plugin
//! specification 9.7 and its `Wart:` line.

use crate::build::{Build, Instance};
use crate::by_slot::BySlot;
use crate::learned::{DUMPED, Learned};
use crate::lru::Lru;
use crate::row::{Kind, Need, Row, Stability};
use parking_lot::Mutex;
use pointsman_config::{Param, ParamKind};
use pointsman_core::Nanos;
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_scheduling::{
    AddedHeaders, Chosen, ColumnId, DataKind, EncoderMatch, Facts, Held, Hooks, MediaItem, Producer, Request, Role,
    Scope, StagePick, Termination,
};
use std::sync::Arc;

/// Items in a megabyte of cache: one is taken to be 2 MiB.
const MB_PER_ITEM: u64 = 2;
const DEFAULT_MB: u64 = 4096;

/// The items that each endpoint holds.
#[derive(Debug, Default)]
pub struct EncoderCaches(BySlot<Mutex<Lru<u64>>>);

impl Learned for EncoderCaches {
    fn endpoint_left(&self, endpoint: &Endpoint) {
        self.0.remove(endpoint);
    }

    fn dump(&self, fleet: &Snapshot) -> Option<serde_json::Value> {
        let count = |e: &Arc<Endpoint>| Some((e.name().to_string(), self.0.known(e)?.lock().len()));
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

impl MmEmbeddingsCacheProducer {
    /// The column it fills.
    #[must_use]
    pub fn column(&self) -> Option<ColumnId<EncoderMatch>> {
        self.column
    }

    /// Calls `held` with the place of each of `items` that an endpoint is believed to hold.
    pub fn each_held(&self, endpoint: &Endpoint, items: &[MediaItem], held: impl FnMut(usize)) {
        if let Some(known) = self.caches.0.known(endpoint) {
            let known = known.lock();
            (0..items.len()).filter(|&n| known.get(&items[n].hash).is_some()).for_each(held);
        }
    }
}

impl Producer for MmEmbeddingsCacheProducer {
    fn produce(&self, request: &Request, all: Scope<'_>, _: Nanos, facts: &mut Facts) {
        let (Some(column), false) = (self.column, request.items.is_empty()) else { return };
        let items = &request.items;
        let matched = |endpoint: &Endpoint| {
            let mut matched = 0;
            self.each_held(endpoint, items, |_| matched += 1);
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
            items: chosen.request.items.iter().map(|item| item.hash).collect(),
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
            let cache = self.caches.0.of(endpoint);
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
            if let Some(cache) = self.caches.0.known(endpoint) {
                let mut cache = cache.lock();
                for item in new {
                    cache.remove(item);
                }
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
        let (mut bench, producer) = bench(&[2, 3]);
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
}
