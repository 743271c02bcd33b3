//! Scheduler, plugins, data layer (metrics 2.3).

use super::histogram::Histogram;
use super::{Families, buckets};
use parking_lot::Mutex;
use pointsman_scheduling::Timing;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Plugin {
    extension_point: &'static str,
    plugin_type: String,
    plugin_name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Source {
    source_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Extraction {
    source_type: String,
    extractor_type: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Build {
    commit: &'static str,
    build_ref: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Scorer {
    plugin_name: String,
}

fn fast() -> Histogram {
    Histogram::new(buckets::FAST.iter().copied())
}

/// See the [module](self).
pub(super) struct SchedulerMetrics {
    e2e: Histogram,
    plugins: Family<Plugin, Histogram, fn() -> Histogram>,
    /// Of which of them there are series.
    timed: Mutex<HashSet<Plugin>>,
    poll_errors: Family<Source, Counter>,
    extract_errors: Family<Extraction, Counter>,
    nan: Family<Scorer, Gauge<i64>>,
    nan_sources: Mutex<HashMap<Arc<str>, Arc<AtomicU64>>>,
}

impl SchedulerMetrics {
    pub(super) fn new(f: &mut Families<'_>) -> Self {
        let m = Self {
            e2e: fast(),
            plugins: Family::new_with_constructor(fast),
            timed: Mutex::default(),
            poll_errors: Family::default(),
            extract_errors: Family::default(),
            nan: Family::default(),
            nan_sources: Mutex::default(),
        };
        let name = "scheduler_e2e_duration_seconds";
        f.new_name(name, "Time to schedule one request", m.e2e.clone());
        f.old_name("inference_extension_scheduler_e2e_duration_seconds", name, m.e2e.clone());
        let name = "plugin_duration_seconds";
        f.new_name(name, "Time of one plugin call", m.plugins.clone());
        f.old_name("inference_extension_plugin_duration_seconds", name, m.plugins.clone());
        let help = "Metrics pages that could not be fetched or read";
        f.new_name("datalayer_poll_errors", help, m.poll_errors.clone());
        let old = "llm_d_inference_scheduler_datalayer_poll_errors";
        f.old_name(old, "datalayer_poll_errors_total", m.poll_errors.clone());
        let help = "Metrics pages from which some value could not be read";
        f.new_name("datalayer_extract_errors", help, m.extract_errors.clone());
        let old = "llm_d_inference_scheduler_datalayer_extract_errors";
        f.old_name(old, "datalayer_extract_errors_total", m.extract_errors.clone());
        let info = Family::<Build, Gauge>::default();
        let build = Build {
            commit: option_env!("POINTSMAN_COMMIT").unwrap_or("unknown"),
            build_ref: concat!("v", env!("CARGO_PKG_VERSION")),
        };
        info.get_or_create(&build).set(1);
        f.new_name("info", "Build of this process", info.clone());
        f.old_name("inference_extension_info", "info", info);
        f.registry.register(
            "pointsman_scores_not_a_number",
            "Scores that were not a number, taken as 0",
            m.nan.clone(),
        );
        m
    }

    pub(super) fn scheduled(&self, seconds: f64) {
        self.e2e.observe(seconds);
    }

    pub(super) fn poll_error(&self, source_type: &str) {
        self.poll_errors.get_or_create(&Source { source_type: source_type.to_owned() }).inc();
    }

    pub(super) fn extract_error(&self, source_type: &str, extractor_type: &str) {
        let labels = Extraction { source_type: source_type.to_owned(), extractor_type: extractor_type.to_owned() };
        self.extract_errors.get_or_create(&labels).inc();
    }

    pub(super) fn plugin_timing(&self, extension_point: &'static str, type_name: &str, name: &str) -> Arc<dyn Timing> {
        let labels = Plugin { extension_point, plugin_type: type_name.to_owned(), plugin_name: name.to_owned() };
        let series = self.plugins.get_or_create_owned(&labels);
        self.timed.lock().insert(labels);
        Arc::new(Timed(series))
    }

    /// Lets go of the series of plugins that are no more: `in_use` says of which type and name they stay.
    pub(super) fn retain_plugins(&self, in_use: impl Fn(&str, &str) -> bool) {
        self.timed.lock().retain(|labels| {
            let stays = in_use(&labels.plugin_type, &labels.plugin_name);
            if !stays {
                self.plugins.remove(labels);
            }
            stays
        });
        self.nan_sources.lock().retain(|name, _| {
            let stays = in_use("", name);
            if !stays {
                self.nan.remove(&Scorer { plugin_name: name.to_string() });
            }
            stays
        });
    }

    pub(super) fn count_nan_of(&self, name: &Arc<str>, counter: &Arc<AtomicU64>) {
        self.nan_sources.lock().insert(Arc::clone(name), Arc::clone(counter));
    }

    pub(super) fn refresh(&self) {
        let mut seen = HashSet::new();
        for (name, counter) in &*self.nan_sources.lock() {
            let count = counter.load(Ordering::Relaxed) as i64;
            if count > 0 && seen.insert(Arc::clone(name)) {
                self.nan.get_or_create(&Scorer { plugin_name: name.to_string() }).set(count);
            }
        }
    }
}

struct Timed(Histogram);

impl Timing for Timed {
    fn observe(&self, seconds: f64) {
        self.0.observe(seconds);
    }
}
