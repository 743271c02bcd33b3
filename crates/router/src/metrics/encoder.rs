//! The encoder caches (metrics 3.3). One item can be held by several endpoints, so there may be more hits than queries.

use super::bounded::Bounded;
use super::grown::Grown;
use super::histogram::Histogram;
use super::{Families, buckets};
use parking_lot::Mutex;
use pointsman_fleet::Endpoint;
use pointsman_plugins::producers::mm_embeddings_cache_producer::MmEmbeddingsCacheProducer;
use pointsman_scheduling::{Facts, MediaItem};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Plugin {
    plugin_type: &'static str,
    plugin_name: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Query {
    plugin_type: &'static str,
    plugin_name: Arc<str>,
    modality: Arc<str>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Hit {
    plugin_type: &'static str,
    plugin_name: Arc<str>,
    pod: String,
    modality: Arc<str>,
}

const TYPE: &str = "mm-embeddings-cache-producer";

/// See the [module](self).
pub(super) struct EncoderMetrics {
    queries: Family<Query, Counter>,
    hits: Family<Hit, Counter>,
    ratio: Family<Plugin, Histogram, fn() -> Histogram>,
    /// Clients may call a modality what they like.
    modalities: Bounded,
    /// The series that are in use, so that a request finds them without the lock that all share.
    known_queries: Grown<Key, Counter>,
    known_ratios: Grown<Arc<str>, Histogram>,
    /// The hits of each endpoint, which are taken away with it.
    used: Grown<u64, Arc<Mutex<HashMap<Key, Counter>>>>,
}

/// Instance name and modality.
type Key = (Arc<str>, Arc<str>);

/// The modalities of a request's items.
struct Kinds {
    names: Vec<Arc<str>>,
    /// For each item, which of them.
    of_item: Vec<usize>,
}

fn ratio() -> Histogram {
    Histogram::new(buckets::RATIO.iter().copied())
}

impl EncoderMetrics {
    pub(super) fn new(f: &mut Families<'_>) -> Self {
        let m = Self {
            queries: Family::default(),
            hits: Family::default(),
            ratio: Family::new_with_constructor(ratio),
            modalities: Bounded::default(),
            known_queries: Grown::default(),
            known_ratios: Grown::default(),
            used: Grown::default(),
        };
        f.new_name("encoder_cache_queries", "Images, videos and sounds of requests", m.queries.clone());
        f.new_name("encoder_cache_hits", "Those that an endpoint is believed to hold encoded", m.hits.clone());
        let help = "Share of a request's images, videos and sounds that an endpoint is believed to hold encoded";
        f.new_name("encoder_cache_hit_ratio", help, m.ratio.clone());
        m
    }

    pub(super) fn hits<'a>(
        &self,
        producers: &[Arc<MmEmbeddingsCacheProducer>],
        facts: &Facts,
        candidates: impl Iterator<Item = &'a Endpoint> + Clone,
        items: &[MediaItem],
    ) {
        if producers.is_empty() {
            return;
        }
        let kinds = self.kinds(items);
        let mut counts = vec![0; kinds.names.len()];
        for producer in producers {
            let Some(matches) = producer.column().and_then(|id| facts.column(id)) else { continue };
            let plugin = &producer.name;
            counts.fill(0);
            kinds.of_item.iter().for_each(|&kind| counts[kind] += 1);
            for (modality, count) in kinds.names.iter().zip(&counts) {
                self.query(plugin, modality).inc_by(*count);
            }
            let labels = || Plugin { plugin_type: TYPE, plugin_name: Arc::clone(plugin) };
            let ratio = self.known_ratios.of(plugin, || self.ratio.get_or_create_owned(&labels()));
            for (endpoint, m) in candidates.clone().zip(matches) {
                ratio.observe(m.matched as f64 / m.total.max(1) as f64);
                if m.matched > 0 {
                    counts.fill(0);
                    producer.each_held(endpoint, items, |item| counts[kinds.of_item[item]] += 1);
                    self.held(endpoint, plugin, kinds.names.iter().zip(&counts));
                }
            }
        }
    }

    fn kinds(&self, items: &[MediaItem]) -> Kinds {
        let mut kinds = Kinds { names: Vec::new(), of_item: Vec::with_capacity(items.len()) };
        let mut seen: HashMap<&str, usize> = HashMap::new();
        for item in items {
            let kind = *seen.entry(&item.modality).or_insert_with(|| {
                kinds.names.push(self.modalities.admit(&item.modality));
                kinds.names.len() - 1
            });
            kinds.of_item.push(kind);
        }
        kinds
    }

    fn query(&self, plugin: &Arc<str>, modality: &Arc<str>) -> Counter {
        let key = (Arc::clone(plugin), Arc::clone(modality));
        self.known_queries.of(&key, || {
            let (plugin_name, modality) = key.clone();
            self.queries.get_or_create_owned(&Query { plugin_type: TYPE, plugin_name, modality })
        })
    }

    /// An endpoint holds so many items of each modality.
    fn held<'a>(&self, endpoint: &Endpoint, plugin: &Arc<str>, counts: impl Iterator<Item = (&'a Arc<str>, &'a u64)>) {
        let series = self.used.of(&endpoint.id, Arc::default);
        let mut known = series.lock();
        if endpoint.left() {
            // The news of it may have come before this: nobody would take the series away.
            drop(known);
            return self.endpoint_left(endpoint);
        }
        for (modality, count) in counts.filter(|(_, count)| **count > 0) {
            let key = (Arc::clone(plugin), Arc::clone(modality));
            let hit = || self.hits.get_or_create_owned(&hit(endpoint, &key));
            match known.get(&key) {
                Some(counter) => counter.inc_by(*count),
                None => known.entry(key.clone()).or_insert(hit()).inc_by(*count),
            };
        }
    }

    pub(super) fn endpoint_left(&self, endpoint: &Endpoint) {
        if let Some(series) = self.used.remove(&endpoint.id) {
            for (key, _) in series.lock().drain() {
                self.hits.remove(&hit(endpoint, &key));
            }
        }
    }
}

fn hit(endpoint: &Endpoint, (plugin, modality): &Key) -> Hit {
    Hit {
        plugin_type: TYPE,
        plugin_name: Arc::clone(plugin),
        pod: endpoint.name().to_string(),
        modality: Arc::clone(modality),
    }
}
