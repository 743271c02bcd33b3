//! The encoder caches (metrics 3.3). One item can be held by several endpoints, so there may be more hits than queries.

use super::bounded::Bounded;
use super::histogram::Histogram;
use super::{Families, buckets};
use parking_lot::Mutex;
use pointsman_fleet::Endpoint;
use pointsman_plugins::producers::mm_embeddings_cache_producer::{MmEmbeddingsCacheProducer, distinct};
use pointsman_scheduling::{Facts, MediaItem};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::collections::{HashMap, HashSet};
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
    /// Hits of each endpoint, to take them away with it.
    used: Mutex<HashMap<u64, HashSet<Hit>>>,
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
            used: Mutex::default(),
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
        let items = distinct(items);
        for producer in producers {
            let Some(matches) = producer.column().and_then(|id| facts.column(id)) else { continue };
            let (plugin_type, plugin_name) = (TYPE, &producer.name);
            for item in &items {
                let modality = self.modalities.admit(&item.modality);
                let plugin_name = Arc::clone(plugin_name);
                self.queries.get_or_create(&Query { plugin_type, plugin_name, modality }).inc();
            }
            let ratio = self.ratio.get_or_create_owned(&Plugin { plugin_type, plugin_name: Arc::clone(plugin_name) });
            for (endpoint, m) in candidates.clone().zip(matches) {
                ratio.observe(m.matched as f64 / m.total.max(1) as f64);
                if m.matched > 0 {
                    producer.each_held(endpoint, &items, |item| self.hit(endpoint, plugin_name, &item.modality));
                }
            }
        }
    }

    fn hit(&self, endpoint: &Endpoint, plugin_name: &Arc<str>, modality: &str) {
        let hit = Hit {
            plugin_type: TYPE,
            plugin_name: Arc::clone(plugin_name),
            pod: endpoint.name().to_string(),
            modality: self.modalities.admit(modality),
        };
        let mut used = self.used.lock();
        // Whoever has left is not counted any more: nobody would take the series away.
        if !endpoint.left() {
            self.hits.get_or_create(&hit).inc();
            used.entry(endpoint.id).or_default().insert(hit);
        }
    }

    pub(super) fn endpoint_left(&self, endpoint: &Endpoint) {
        for hit in self.used.lock().remove(&endpoint.id).unwrap_or_default() {
            self.hits.remove(&hit);
        }
    }
}
