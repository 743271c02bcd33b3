//! The approximate prefix index (metrics 3.1).

use super::histogram::Histogram;
use super::{Families, buckets};
use arc_swap::ArcSwap;
use pointsman_plugins::producers::approx_prefix_cache_producer::ApproxPrefixCacheProducer;
use pointsman_scheduling::Facts;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Plugin {
    plugin_name: String,
    plugin_type: &'static str,
}

/// The series of one producer.
#[derive(Debug)]
struct Series {
    producer: Arc<ApproxPrefixCacheProducer>,
    size: Gauge,
    ratio: Histogram,
    bytes: Histogram,
    prompt: Histogram,
    predicted: Histogram,
}

fn labels_of(producer: &ApproxPrefixCacheProducer) -> Plugin {
    Plugin { plugin_name: producer.name.to_string(), plugin_type: producer.type_name }
}

type Histograms = Family<Plugin, Histogram, fn() -> Histogram>;

/// See the [module](self).
pub(super) struct PrefixMetrics {
    size: Family<Plugin, Gauge>,
    ratio: Histograms,
    bytes: Histograms,
    prompt: Histograms,
    predicted: Histograms,
    old: (Gauge, Histogram, Histogram),
    followed: ArcSwap<HashMap<Arc<str>, Series>>,
}

/// Bytes that one token stands for.
const BYTES_PER_TOKEN: u64 = 4;

fn ratio() -> Histogram {
    Histogram::new(buckets::RATIO.iter().copied())
}
fn bytes() -> Histogram {
    Histogram::new(buckets::hit_bytes())
}
fn tokens() -> Histogram {
    Histogram::new(buckets::input_tokens())
}

impl PrefixMetrics {
    pub(super) fn new(f: &mut Families<'_>) -> Self {
        let m = Self {
            size: Family::default(),
            ratio: Family::new_with_constructor(ratio),
            bytes: Family::new_with_constructor(bytes),
            prompt: Family::new_with_constructor(tokens),
            predicted: Family::new_with_constructor(tokens),
            old: (Gauge::default(), ratio(), bytes()),
            followed: ArcSwap::default(),
        };
        f.new_name("prefix_indexer_size", "Blocks that endpoints are credited with", m.size.clone());
        f.old_name("inference_extension_prefix_indexer_size", "prefix_indexer_size", m.old.0.clone());
        f.new_name(
            "prefix_indexer_hit_ratio",
            "Share of the prompt that the chosen endpoint is believed to hold",
            m.ratio.clone(),
        );
        f.old_name("inference_extension_prefix_indexer_hit_ratio", "prefix_indexer_hit_ratio", m.old.1.clone());
        f.new_name(
            "prefix_indexer_hit_bytes",
            "Bytes of the prompt that the chosen endpoint is believed to hold",
            m.bytes.clone(),
        );
        f.old_name("inference_extension_prefix_indexer_hit_bytes", "prefix_indexer_hit_bytes", m.old.2.clone());
        f.new_name("prefix_prompt_tokens", "Tokens of the prompt", m.prompt.clone());
        let help = "Tokens of the prompt that the chosen endpoint is believed to hold";
        f.new_name("prefix_predicted_cached_tokens", help, m.predicted.clone());
        m
    }

    /// Takes up the series of these producers, and takes away those of all others.
    pub(super) fn follow(&self, producers: &[Arc<ApproxPrefixCacheProducer>]) {
        let mut followed = HashMap::new();
        for producer in producers {
            let l = labels_of(producer);
            let series = Series {
                producer: Arc::clone(producer),
                size: self.size.get_or_create_owned(&l),
                ratio: self.ratio.get_or_create_owned(&l),
                bytes: self.bytes.get_or_create_owned(&l),
                prompt: self.prompt.get_or_create_owned(&l),
                predicted: self.predicted.get_or_create_owned(&l),
            };
            followed.insert(Arc::clone(&producer.name), series);
        }
        let before = self.followed.swap(Arc::new(followed));
        let stays = |labels: &Plugin| self.followed.load().values().any(|s| labels_of(&s.producer) == *labels);
        for labels in before.values().map(|s| labels_of(&s.producer)).filter(|labels| !stays(labels)) {
            self.size.remove(&labels);
            for family in [&self.ratio, &self.bytes, &self.prompt, &self.predicted] {
                family.remove(&labels);
            }
        }
    }

    pub(super) fn refresh(&self) {
        let mut all = 0;
        for series in self.followed.load().values() {
            let size = series.producer.state.index.len() as i64;
            series.size.set(size);
            all += size;
        }
        self.old.0.set(all);
    }

    pub(super) fn hit(
        &self,
        producers: &[Arc<ApproxPrefixCacheProducer>],
        facts: &Facts,
        candidate: usize,
        prompt_tokens: u64,
    ) {
        for producer in producers {
            let matches = producer.column().and_then(|c| facts.column(c));
            let Some(m) = matches.and_then(|m| m.get(candidate)).filter(|m| m.total > 0) else { continue };
            let followed = self.followed.load();
            let Some(series) = followed.get(&producer.name) else { continue };
            let hit = (u64::from(m.matched) * u64::from(m.block_tokens) * BYTES_PER_TOKEN) as f64;
            series.ratio.observe(m.ratio());
            series.bytes.observe(hit);
            series.prompt.observe(prompt_tokens as f64);
            series.predicted.observe(m.tokens(prompt_tokens) as f64);
            self.old.1.observe(m.ratio());
            self.old.2.observe(hit);
        }
    }
}
