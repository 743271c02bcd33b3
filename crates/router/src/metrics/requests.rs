//! Requests and latency (metrics 2.1), and what is counted per model and endpoint (2.3, 3.2).
//!
//! Series are found by model, target, fairness id and priority in one of a few maps, by reference: a request writes out no label. Values that clients
//! control are bounded.

use super::bounded::{Bounded, OTHER};
use super::histogram::Histogram;
use super::in_flight::{EndpointFamilies, EndpointSeries};
use super::series::{Key, RequestSeries, RoutedSeries, Twin};
use super::{Families, buckets};
use hashbrown::{Equivalent, HashMap};
use parking_lot::RwLock;
use pointsman_core::{ErrorCode, xxh64};
use pointsman_fleet::Endpoint;
use pointsman_scheduling::Request;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const SHARDS: usize = 16;

/// Kinds of requests told apart, over all labels. Each label is bounded, but a client sets several: their product must be bounded too. Further kinds are
/// counted as one, `other` in every label.
const MAX_KINDS: usize = 1000;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Model4 {
    model_name: String,
    target_model_name: String,
    fairness_id: String,
    priority: i32,
}

impl Model4 {
    fn of(key: &Key) -> Self {
        Self {
            model_name: key.model.to_string(),
            target_model_name: key.target.to_string(),
            fairness_id: key.fairness.to_string(),
            priority: key.priority,
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Model3 {
    model_name: String,
    target_model_name: String,
    priority: i32,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Model2 {
    model_name: String,
    target_model_name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Model1 {
    model_name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Failed {
    model_name: String,
    target_model_name: String,
    fairness_id: String,
    priority: i32,
    error_code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OldFailed {
    model_name: String,
    target_model_name: String,
    error_code: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Aborted {
    model_name: String,
    target_model_name: String,
    fairness_id: String,
    priority: i32,
    cause: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Streamed {
    model_name: String,
    target_model_name: String,
    fairness_id: String,
    priority: i32,
    streaming: &'static str,
}

impl Aborted {
    fn of(l: &Model4, cause: &'static str) -> Self {
        let Model4 { model_name, target_model_name, fairness_id, priority } = l.clone();
        Self { model_name, target_model_name, fairness_id, priority, cause }
    }
}

impl Streamed {
    fn of(l: &Model4, streaming: &'static str) -> Self {
        let Model4 { model_name, target_model_name, fairness_id, priority } = l.clone();
        Self { model_name, target_model_name, fairness_id, priority, streaming }
    }
}

/// Makes histograms of one set of bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds(fn() -> Histogram);

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        (self.0)()
    }
}

type Histograms<L> = Family<L, Histogram, Bounds>;

macro_rules! bounds {
    ($name:ident) => {
        Bounds(|| Histogram::new(buckets::$name.iter().copied()))
    };
    ($name:ident()) => {
        Bounds(|| Histogram::new(buckets::$name()))
    };
}

/// A family of histograms by all four labels, and its predecessor by the two models.
#[derive(Debug)]
struct TwinFamily {
    new: Histograms<Model4>,
    old: Option<Histograms<Model2>>,
}

impl TwinFamily {
    fn new(f: &mut Families<'_>, name: &str, help: &str, old: Option<&str>, bounds: Bounds) -> Self {
        let new = Histograms::new_with_constructor(bounds);
        f.new_name(name, help, new.clone());
        let old = old.filter(|_| f.old).map(|old| {
            let family = Histograms::new_with_constructor(bounds);
            f.old_name(old, name, family.clone());
            family
        });
        Self { new, old }
    }

    fn of(&self, l: &Model4, old: &Model2) -> Twin {
        Twin { new: self.new.get_or_create_owned(l), old: self.old.as_ref().map(|f| f.get_or_create_owned(old)) }
    }
}

#[derive(Hash)]
struct Wanted<'a> {
    model: &'a str,
    target: &'a str,
    fairness: &'a str,
    priority: i32,
}

impl Equivalent<Key> for Wanted<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *key.model == *self.model
            && *key.target == *self.target
            && *key.fairness == *self.fairness
            && key.priority == self.priority
    }
}

type Shard = RwLock<HashMap<Key, Arc<RequestSeries>>>;

/// The families, and the series in use.
pub(super) struct Requests {
    models: Bounded,
    fairness: Bounded,
    shards: Vec<Shard>,
    kinds: AtomicUsize,
    received: Family<Model4, Counter>,
    total: Family<Model4, Counter>,
    old_total: Family<Model3, Counter>,
    errors: Family<Failed, Counter>,
    old_errors: Family<OldFailed, Counter>,
    aborted: Family<Aborted, Counter>,
    running: Family<Model4, Gauge>,
    old_running: Family<Model1, Gauge>,
    duration: TwinFamily,
    size: TwinFamily,
    response_size: TwinFamily,
    input: TwinFamily,
    output: TwinFamily,
    cached: TwinFamily,
    ntpot: TwinFamily,
    ttft: Histograms<Streamed>,
    tpot: Histograms<Model4>,
    itl: Histograms<Model4>,
    processing: Histogram,
    response_processing: Histogram,
    endpoints: EndpointFamilies,
}

impl Requests {
    pub(super) fn new(f: &mut Families<'_>) -> Self {
        let twin = |f: &mut Families<'_>, name, help, old, bounds| TwinFamily::new(f, name, help, Some(old), bounds);
        let m = Self {
            models: Bounded::default(),
            fairness: Bounded::default(),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            kinds: AtomicUsize::new(0),
            received: Family::default(),
            total: Family::default(),
            old_total: Family::default(),
            errors: Family::default(),
            old_errors: Family::default(),
            aborted: Family::default(),
            running: Family::default(),
            old_running: Family::default(),
            duration: twin(
                f,
                "request_duration_seconds",
                "Time from receipt to the end of the response",
                "inference_objective_request_duration_seconds",
                bounds!(GEN),
            ),
            size: twin(
                f,
                "request_size_bytes",
                "Size of request bodies as received",
                "inference_objective_request_sizes",
                bounds!(request_bytes()),
            ),
            response_size: twin(
                f,
                "response_size_bytes",
                "Size of response bodies",
                "inference_objective_response_sizes",
                bounds!(response_bytes()),
            ),
            input: twin(
                f,
                "request_input_tokens",
                "Prompt tokens as the engine counts them",
                "inference_objective_input_tokens",
                bounds!(input_tokens()),
            ),
            output: twin(
                f,
                "request_output_tokens",
                "Generated tokens as the engine counts them",
                "inference_objective_output_tokens",
                bounds!(output_tokens()),
            ),
            cached: twin(
                f,
                "request_cached_tokens",
                "Prompt tokens that the engine had cached",
                "inference_objective_prompt_cached_tokens",
                bounds!(input_tokens()),
            ),
            ntpot: twin(
                f,
                "request_ntpot_seconds",
                "Duration divided by generated tokens",
                "inference_objective_normalized_time_per_output_token_seconds",
                bounds!(NTPOT),
            ),
            ttft: Histograms::new_with_constructor(bounds!(TTFT)),
            tpot: Histograms::new_with_constructor(bounds!(TPOT)),
            itl: Histograms::new_with_constructor(bounds!(ITL)),
            processing: Histogram::new(buckets::REQPROC.iter().copied()),
            response_processing: Histogram::new(buckets::RESPPROC.iter().copied()),
            endpoints: EndpointFamilies::new(f),
        };
        f.new_name("request_received", "Requests, counted before any of them is refused", m.received.clone());
        f.new_name("request", "Requests that were routed", m.total.clone());
        f.old_name("inference_objective_request", "request_total", m.old_total.clone());
        f.new_name(
            "request_error",
            "Requests that were refused, or that the engine answered with an error",
            m.errors.clone(),
        );
        f.old_name("inference_objective_request_error", "request_error_total", m.old_errors.clone());
        f.new_name("request_aborted", "Requests whose response did not come to its end", m.aborted.clone());
        f.new_name("request_running", "Requests in progress", m.running.clone());
        f.old_name("inference_objective_running_requests", "request_running", m.old_running.clone());
        f.new_name(
            "request_ttft_seconds",
            "Time from receipt to the first byte of the response's body",
            m.ttft.clone(),
        );
        f.new_name(
            "request_streaming_tpot_seconds",
            "Time per generated token after the first, of streams",
            m.tpot.clone(),
        );
        f.new_name("request_streaming_itl_seconds", "Gap between chunks of a stream", m.itl.clone());
        let help = "Time from receipt to the decision";
        f.new_name("request_processing_duration_seconds", help, m.processing.clone());
        let help = "Time from the response's head to its end";
        f.new_name("response_processing_duration_seconds", help, m.response_processing.clone());
        m
    }

    pub(super) fn series(&self, request: &Request) -> Arc<RequestSeries> {
        self.find(&Wanted {
            model: &request.incoming_model,
            target: &request.target_model,
            fairness: &request.fairness_id,
            priority: request.priority,
        })
    }

    /// The series of a request of which at most the model is known.
    pub(super) fn unread(&self, model: &str) -> Arc<RequestSeries> {
        let fairness = pointsman_core::headers::DEFAULT_FAIRNESS_ID;
        self.find(&Wanted { model, target: model, fairness, priority: 0 })
    }

    fn find(&self, wanted: &Wanted<'_>) -> Arc<RequestSeries> {
        if let Some(known) = self.shard(wanted).read().get(wanted) {
            return Arc::clone(known);
        }
        if self.kinds.load(Ordering::Relaxed) >= MAX_KINDS {
            let other: Arc<str> = OTHER.into();
            return self.enter(Key { model: other.clone(), target: other.clone(), fairness: other, priority: 0 });
        }
        self.enter(Key {
            model: self.models.admit(wanted.model),
            target: self.models.admit(wanted.target),
            fairness: self.fairness.admit(wanted.fairness),
            priority: wanted.priority,
        })
    }

    fn enter(&self, key: Key) -> Arc<RequestSeries> {
        let wanted = Wanted { model: &key.model, target: &key.target, fairness: &key.fairness, priority: key.priority };
        let mut shard = self.shard(&wanted).write();
        if let Some(known) = shard.get(&wanted) {
            return Arc::clone(known);
        }
        self.kinds.fetch_add(1, Ordering::Relaxed);
        let series = Arc::new(RequestSeries {
            received: self.received.get_or_create_owned(&Model4::of(&key)),
            key: key.clone(),
            routed: OnceLock::new(),
            endpoints: RwLock::default(),
        });
        shard.insert(key, Arc::clone(&series));
        series
    }

    fn shard(&self, wanted: &Wanted<'_>) -> &Shard {
        let mix = xxh64(wanted.target.as_bytes()) ^ xxh64(wanted.fairness.as_bytes()).rotate_left(7);
        &self.shards[(mix % SHARDS as u64) as usize]
    }

    /// A request of that kind was routed.
    pub(super) fn started(&self, series: &RequestSeries, size_bytes: u64) {
        series.routed.get_or_init(|| self.make(&series.key)).started(size_bytes);
    }

    fn make(&self, key: &Key) -> RoutedSeries {
        let l4 = Model4::of(key);
        let (model_name, target_model_name) = (l4.model_name.clone(), l4.target_model_name.clone());
        let l3 = Model3 {
            model_name: model_name.clone(),
            target_model_name: target_model_name.clone(),
            priority: key.priority,
        };
        let l2 = Model2 { model_name: model_name.clone(), target_model_name };
        let streamed = |streaming| self.ttft.get_or_create_owned(&Streamed::of(&l4, streaming));
        let aborted = |cause| self.aborted.get_or_create_owned(&Aborted::of(&l4, cause));
        RoutedSeries {
            total: (self.total.get_or_create_owned(&l4), self.old_total.get_or_create_owned(&l3)),
            engine_errors: self.errors_of(&l4, ErrorCode::ModelServerError),
            disconnects: aborted("client_disconnect"),
            aborts: aborted("error"),
            running: (!key.model.is_empty()).then(|| {
                let old = Model1 { model_name };
                (self.running.get_or_create_owned(&l4), self.old_running.get_or_create_owned(&old))
            }),
            duration: self.duration.of(&l4, &l2),
            size: self.size.of(&l4, &l2),
            response_size: self.response_size.of(&l4, &l2),
            input: self.input.of(&l4, &l2),
            output: self.output.of(&l4, &l2),
            cached: self.cached.of(&l4, &l2),
            ntpot: self.ntpot.of(&l4, &l2),
            ttft: [streamed("false"), streamed("true")],
            tpot: self.tpot.get_or_create_owned(&l4),
            itl: self.itl.get_or_create_owned(&l4),
        }
    }

    fn errors_of(&self, l: &Model4, code: ErrorCode) -> (Counter, Counter) {
        let error_code = code.as_str();
        let new = Failed {
            model_name: l.model_name.clone(),
            target_model_name: l.target_model_name.clone(),
            fairness_id: l.fairness_id.clone(),
            priority: l.priority,
            error_code,
        };
        let old =
            OldFailed { model_name: l.model_name.clone(), target_model_name: l.target_model_name.clone(), error_code };
        (self.errors.get_or_create_owned(&new), self.old_errors.get_or_create_owned(&old))
    }

    /// The series of a request at an endpoint.
    pub(super) fn at(
        &self,
        series: &RequestSeries,
        endpoint: &Endpoint,
        producer: Option<&str>,
    ) -> Arc<EndpointSeries> {
        if let Some(known) = series.endpoints.read().get(&endpoint.id) {
            return Arc::clone(known);
        }
        let key = &series.key;
        let made = self.endpoints.make(endpoint, producer, &key.target, &key.fairness, key.priority);
        let made = Arc::clone(series.endpoints.write().entry(endpoint.id).or_insert(made));
        if endpoint.left() {
            // It left while its series were made: nobody will tell us again.
            self.endpoint_left(endpoint);
        }
        made
    }

    /// Series of an endpoint that is gone go with it.
    pub(super) fn endpoint_left(&self, endpoint: &Endpoint) {
        for shard in &self.shards {
            for series in shard.read().values() {
                series.endpoints.write().remove(&endpoint.id);
            }
        }
        self.endpoints.remove(endpoint);
    }

    pub(super) fn attempt_failed(&self, model: &str) {
        self.endpoints.attempt_failed(&self.models.admit(model));
    }

    /// A request that never had an endpoint.
    pub(super) fn refused(&self, series: &RequestSeries, code: ErrorCode) {
        let (new, old) = self.errors_of(&Model4::of(&series.key), code);
        new.inc();
        old.inc();
    }

    pub(super) fn processed(&self, took: Duration) {
        self.processing.observe(took.as_secs_f64());
    }

    pub(super) fn response_processed(&self, took: Duration) {
        self.response_processing.observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::super::series::Ended;
    use super::*;
    use pointsman_scheduling::Termination;
    use pointsman_wire::usage::Usage;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    fn fresh() -> (Registry, Requests) {
        let mut registry = Registry::default();
        let requests = Requests::new(&mut Families { registry: &mut registry, old: true });
        (registry, requests)
    }

    fn request(model: &str, fairness: &str) -> Request {
        Request {
            incoming_model: model.into(),
            target_model: model.into(),
            fairness_id: fairness.into(),
            ..Request::default()
        }
    }

    #[test]
    fn the_worked_example_of_the_specification_holds() {
        let (registry, requests) = fresh();
        let series = requests.series(&request("m", "f"));
        requests.started(&series, 10);
        series.gap(Duration::from_millis(20));
        series.gap(Duration::from_millis(30));
        series.ended(&Ended {
            how: Termination::Natural,
            engine_failed: false,
            usage: Some(Usage { prompt: 100, completion: 3, total: 103, cached: Some(64) }),
            duration: Duration::from_millis(350),
            ttft: Some(Duration::from_millis(300)),
            response_bytes: 9,
            streaming: true,
        });
        let mut page = String::new();
        encode(&mut page, &registry).expect("writing to a string");
        let sum = |name: &str| -> f64 {
            let line = page.lines().find(|l| l.starts_with(&format!("{name}_sum"))).expect(name);
            line.rsplit(' ').next().and_then(|v| v.parse().ok()).expect("a number")
        };
        for (name, want) in [
            ("llm_d_epp_request_streaming_tpot_seconds", 0.025),
            ("llm_d_epp_request_ntpot_seconds", 0.35 / 3.0),
            ("llm_d_epp_request_duration_seconds", 0.35),
            ("inference_objective_request_duration_seconds", 0.35),
            ("llm_d_epp_request_streaming_itl_seconds", 0.05),
            ("llm_d_epp_request_input_tokens", 100.0),
            ("llm_d_epp_request_output_tokens", 3.0),
            ("llm_d_epp_request_cached_tokens", 64.0),
            ("inference_objective_prompt_cached_tokens", 64.0),
        ] {
            assert!((sum(name) - want).abs() < 1e-9, "{name}");
        }
        assert!(page.contains("llm_d_epp_request_ttft_seconds_count{model_name=\"m\",target_model_name=\"m\",fairness_id=\"f\",priority=\"0\",streaming=\"true\"} 1"));
        assert!(page.contains("inference_objective_running_requests{model_name=\"m\"} 0"));
    }

    #[test]
    fn br_36_client_controlled_labels_stay_bounded_and_running_ends_at_zero() {
        let (registry, requests) = fresh();
        for i in 0..5000 {
            let series = requests.series(&request(&format!("m{i}"), &format!("t{i}")));
            requests.started(&series, 1);
            series.ended(&Ended {
                how: Termination::ClientDisconnect,
                engine_failed: false,
                usage: None,
                duration: Duration::ZERO,
                ttft: None,
                response_bytes: 0,
                streaming: false,
            });
        }
        let mut page = String::new();
        encode(&mut page, &registry).expect("writing to a string");
        let of = |name: &str| page.lines().filter(|l| l.starts_with(name)).collect::<Vec<_>>();
        let totals = of("llm_d_epp_request_total{");
        assert!(page.len() < 64 << 20, "a page of {} MiB", page.len() >> 20);
        assert_eq!(totals.len(), 1001);
        assert!(totals.iter().any(|l| l.contains("model_name=\"other\"")
            && l.contains("fairness_id=\"other\"")
            && l.ends_with(" 4000")));
        assert!(of("llm_d_epp_request_running{").iter().all(|l| l.ends_with(" 0")));
    }

    #[test]
    fn br_36_the_product_of_client_controlled_labels_stays_bounded_and_refusals_make_no_histograms() {
        let (registry, requests) = fresh();
        for i in 0..100 {
            for j in 0..100 {
                let series = requests.series(&request(&format!("m{i}"), &format!("t{j}")));
                series.received();
                requests.refused(&series, ErrorCode::NotFound);
            }
        }
        let mut page = String::new();
        encode(&mut page, &registry).expect("writing to a string");
        let received: Vec<&str> = page.lines().filter(|l| l.starts_with("llm_d_epp_request_received_total{")).collect();
        assert_eq!(received.len(), MAX_KINDS + 1);
        let sum: u64 = received.iter().filter_map(|l| l.rsplit(' ').next()?.parse::<u64>().ok()).sum();
        assert_eq!(sum, 10_000);
        assert!(page.len() < 1 << 20, "{} bytes", page.len());
    }
}
