//! What is counted (metrics and tracing 1 to 3.2). Every family with a deprecated predecessor moves both.

mod bounded;
mod buckets;
mod disaggregation;
mod encoder;
mod grown;
mod histogram;
mod in_flight;
mod pool;
mod prefix;
mod process;
mod rendered;
mod requests;
mod scheduler;
mod series;
mod streams;
mod text;

use disaggregation::Disaggregation;
use encoder::EncoderMetrics;
use in_flight::EndpointSeries;
pub(crate) use in_flight::InFlight;
pub(crate) use series::{Ended, RequestSeries};
pub use streams::{OpenStream, StreamMetrics};

use parking_lot::Mutex;
use pointsman_core::ErrorCode;
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_plugins::Compiled;
use pointsman_plugins::producers::approx_prefix_cache_producer::ApproxPrefixCacheProducer;
use pointsman_plugins::producers::mm_embeddings_cache_producer::MmEmbeddingsCacheProducer;
use pointsman_plugins::producers::token_producer::render::RenderError;
use pointsman_scheduling::{Facts, MediaItem, Named, ProfileHandler, Request, Timing};
use prefix::PrefixMetrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use rendered::Rendered;
use requests::Requests;
use scheduler::SchedulerMetrics;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The metrics of one pool.
pub struct Metrics {
    registry: Mutex<Registry>,
    requests: Requests,
    scheduler: SchedulerMetrics,
    pool: pool::PoolGauges,
    prefix: PrefixMetrics,
    disaggregation: Disaggregation,
    encoder: EncoderMetrics,
    rendered: Rendered,
    retries: Counter,
    bodyless: Counter,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Metrics")
    }
}

/// Registers families, under their deprecated names too when these are wanted.
pub(crate) struct Families<'a> {
    registry: &'a mut Registry,
    old: bool,
}

impl Families<'_> {
    /// Registers a family under its own name.
    fn new_name(&mut self, name: &str, help: &str, metric: impl prometheus_client::registry::Metric + Clone) {
        self.registry.register(format!("llm_d_epp_{name}"), format!("[ALPHA] {help}"), metric);
    }

    /// Registers a family under a deprecated name.
    fn old_name(&mut self, name: &str, instead: &str, metric: impl prometheus_client::registry::Metric + Clone) {
        if self.old {
            self.registry.register(name, format!("[ALPHA] [Deprecated: Use llm_d_epp_{instead}]"), metric);
        }
    }
}

impl Metrics {
    pub(crate) fn new(pool: &str, stale_after: Duration, old: bool) -> Self {
        let mut registry = Registry::default();
        let mut families = Families { registry: &mut registry, old };
        let requests = Requests::new(&mut families);
        let scheduler = SchedulerMetrics::new(&mut families);
        let pool = pool::PoolGauges::new(pool, stale_after, &mut families);
        let prefix = PrefixMetrics::new(&mut families);
        let disaggregation = Disaggregation::new(&mut families);
        let encoder = EncoderMetrics::new(&mut families);
        let rendered = Rendered::new(&mut families);
        let retries = Counter::default();
        registry.register(
            "pointsman_retries",
            "Requests sent to another endpoint because the first one could not serve them",
            retries.clone(),
        );
        let bodyless = Counter::default();
        registry.register(
            "pointsman_bodyless_requests",
            "Requests without a body, which are routed but counted nowhere else",
            bodyless.clone(),
        );
        process::register(&mut registry);
        Self {
            registry: Mutex::new(registry),
            requests,
            scheduler,
            pool,
            prefix,
            disaggregation,
            encoder,
            rendered,
            retries,
            bodyless,
        }
    }

    /// Registers further collectors, such as a transport's own.
    pub fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock());
    }

    /// The whole page: Prometheus text, or OpenMetrics. Gauges of the pool are computed from `fleet` at this moment.
    #[must_use]
    pub fn render(&self, fleet: &Snapshot, now: pointsman_core::Nanos, openmetrics: bool) -> String {
        self.pool.refresh(fleet, now);
        self.prefix.refresh();
        self.scheduler.refresh();
        let mut page = String::with_capacity(64 << 10);
        // Writing to a string cannot fail.
        let _ = encode(&mut page, &self.registry.lock());
        if openmetrics { page } else { text::classic(&page) }
    }

    /// A metrics page could not be fetched or read.
    pub fn poll_error(&self, source_type: &str) {
        self.scheduler.poll_error(source_type);
    }

    /// Some value of a page could not be read.
    pub fn extract_error(&self, source_type: &str, extractor_type: &str) {
        self.scheduler.extract_error(source_type, extractor_type);
    }

    pub(crate) fn plugin_timing(&self, point: &'static str, type_name: &str, name: &str) -> Arc<dyn Timing> {
        self.scheduler.plugin_timing(point, type_name, name)
    }

    pub(crate) fn retain_plugins(&self, in_use: impl Fn(&str, &str) -> bool) {
        self.scheduler.retain_plugins(in_use);
    }

    pub(crate) fn count_nan_of(&self, name: &Arc<str>, counter: &Arc<AtomicU64>) {
        self.scheduler.count_nan_of(name, counter);
    }

    pub(crate) fn follow_prefix(&self, producers: &[Arc<ApproxPrefixCacheProducer>]) {
        self.prefix.follow(producers);
    }

    pub(crate) fn endpoint_left(&self, endpoint: &Endpoint) {
        self.requests.endpoint_left(endpoint);
        self.encoder.endpoint_left(endpoint);
    }

    pub(crate) fn series(&self, request: &Request) -> Arc<RequestSeries> {
        self.requests.series(request)
    }

    /// The series of a request of which at most the model is known.
    pub(crate) fn unread(&self, model: &str) -> Arc<RequestSeries> {
        self.requests.unread(model)
    }

    /// A request without a body: no prompt, no model, and no place among the latencies of those that have one.
    pub(crate) fn bodyless(&self) {
        self.bodyless.inc();
    }

    /// A request that was not routed.
    pub(crate) fn refused(&self, series: &RequestSeries, code: ErrorCode) {
        self.requests.refused(series, code);
    }

    /// A request that was routed.
    pub(crate) fn started(&self, series: &RequestSeries, size_bytes: u64) {
        self.requests.started(series, size_bytes);
    }

    pub(crate) fn processed(&self, took: Duration) {
        self.requests.processed(took);
    }

    pub(crate) fn response_processed(&self, took: Duration) {
        self.requests.response_processed(took);
    }

    pub(crate) fn scheduled(&self, seconds: f64) {
        self.scheduler.scheduled(seconds);
    }

    /// A request is served by engines of these kinds, says the profile handler.
    pub(crate) fn disaggregated(&self, handler: &Named<dyn ProfileHandler>, model: &str, kind: &'static str) {
        self.disaggregation.decided((&handler.type_name, &handler.name), model, kind);
    }

    /// A prompt was rendered, or was not for this reason.
    pub(crate) fn rendered(&self, error: Option<&RenderError>, took: Duration) {
        self.rendered.rendered(error, took);
    }

    pub(crate) fn attempt_failed(&self, model: &str) {
        self.requests.attempt_failed(model);
    }

    pub(crate) fn retried(&self) {
        self.retries.inc();
    }

    pub(crate) fn prefix_hit(
        &self,
        producers: &[Arc<ApproxPrefixCacheProducer>],
        facts: &Facts,
        candidate: usize,
        prompt_tokens: u64,
    ) {
        self.prefix.hit(producers, facts, candidate, prompt_tokens);
    }

    /// A request with multimodal items is matched against encoder caches. `candidates`: in the order of the columns of `facts`.
    pub(crate) fn encoder_hits<'a>(
        &self,
        producers: &[Arc<MmEmbeddingsCacheProducer>],
        facts: &Facts,
        candidates: impl Iterator<Item = &'a Endpoint> + Clone,
        items: &[MediaItem],
    ) {
        self.encoder.hits(producers, facts, candidates, items);
    }

    /// The series of a request at the endpoint it goes to.
    pub(crate) fn at(&self, series: &RequestSeries, compiled: &Compiled, endpoint: &Endpoint) -> Arc<EndpointSeries> {
        let producer = compiled.plugins.iter().find(|p| p.type_name == "inflight-load-producer");
        self.requests.at(series, endpoint, producer.map(|p| &*p.name))
    }
}
