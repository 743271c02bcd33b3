//! What is counted per endpoint: scheduling attempts (metrics 2.3), and requests and tokens in flight (3.2).

use super::Families;
use parking_lot::Mutex;
use pointsman_fleet::Endpoint;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Attempt {
    status: &'static str,
    target_model_name: String,
    endpoint_name: String,
    namespace: String,
    port: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OldAttempt {
    status: &'static str,
    target_model_name: String,
    pod_name: String,
    namespace: String,
    port: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Flight {
    endpoint_name: String,
    namespace: String,
    producer_name: String,
    fairness_id: String,
    priority: i32,
}

/// The families.
#[derive(Debug)]
pub(super) struct EndpointFamilies {
    attempts: Family<Attempt, Counter>,
    old_attempts: Family<OldAttempt, Counter>,
    requests: Family<Flight, Gauge>,
    tokens: Family<Flight, Gauge>,
    /// Labels in use per endpoint, to take them away with it.
    used: Mutex<HashMap<u64, Vec<Used>>>,
}

#[derive(Debug)]
struct Used {
    attempt: Attempt,
    old: OldAttempt,
    flight: Option<Flight>,
}

/// The series of one kind of request at one endpoint.
#[derive(Debug)]
pub(crate) struct EndpointSeries {
    attempts: (Counter, Counter),
    flight: Option<(Gauge, Gauge)>,
}

impl EndpointFamilies {
    pub(super) fn new(f: &mut Families<'_>) -> Self {
        let m = Self {
            attempts: Family::default(),
            old_attempts: Family::default(),
            requests: Family::default(),
            tokens: Family::default(),
            used: Mutex::default(),
        };
        f.new_name("scheduler_attempts", "Scheduling attempts by outcome and endpoint", m.attempts.clone());
        let old = "inference_extension_scheduler_attempts";
        f.old_name(old, "scheduler_attempts_total", m.old_attempts.clone());
        f.new_name("inflight_requests", "Requests in flight to an endpoint", m.requests.clone());
        f.new_name("inflight_tokens", "Tokens in flight to an endpoint", m.tokens.clone());
        m
    }

    pub(super) fn make(
        &self,
        endpoint: &Endpoint,
        producer: Option<&str>,
        model: &str,
        fairness: &str,
        priority: i32,
    ) -> Arc<EndpointSeries> {
        let (name, namespace) = (endpoint.name().name.to_string(), endpoint.name().namespace.to_string());
        let (target_model_name, port) = (model.to_owned(), endpoint.meta.port.to_string());
        let old = OldAttempt {
            status: "success",
            target_model_name: target_model_name.clone(),
            pod_name: name.clone(),
            namespace: namespace.clone(),
            port: port.clone(),
        };
        let attempt = Attempt {
            status: "success",
            target_model_name,
            endpoint_name: name.clone(),
            namespace: namespace.clone(),
            port,
        };
        let flight = producer.map(|producer| Flight {
            endpoint_name: name,
            namespace,
            producer_name: producer.to_owned(),
            fairness_id: fairness.to_owned(),
            priority,
        });
        let series = EndpointSeries {
            attempts: (self.attempts.get_or_create_owned(&attempt), self.old_attempts.get_or_create_owned(&old)),
            flight: flight.as_ref().map(|l| (self.requests.get_or_create_owned(l), self.tokens.get_or_create_owned(l))),
        };
        self.used.lock().entry(endpoint.id).or_default().push(Used { attempt, old, flight });
        Arc::new(series)
    }

    pub(super) fn remove(&self, endpoint: &Endpoint) {
        for used in self.used.lock().remove(&endpoint.id).unwrap_or_default() {
            self.attempts.remove(&used.attempt);
            self.old_attempts.remove(&used.old);
            if let Some(flight) = used.flight {
                self.requests.remove(&flight);
                self.tokens.remove(&flight);
            }
        }
    }

    pub(super) fn attempt_failed(&self, model: &str) {
        let none = String::new;
        let (status, target_model_name) = ("failure", model.to_owned());
        let old = OldAttempt {
            status,
            target_model_name: target_model_name.clone(),
            pod_name: none(),
            namespace: none(),
            port: none(),
        };
        self.old_attempts.get_or_create(&old).inc();
        let new = Attempt { status, target_model_name, endpoint_name: none(), namespace: none(), port: none() };
        self.attempts.get_or_create(&new).inc();
    }
}

impl EndpointSeries {
    /// A request was decided for the endpoint.
    pub(crate) fn attempt(&self) {
        self.attempts.0.inc();
        self.attempts.1.inc();
    }
}

/// One request in flight, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct InFlight {
    series: Arc<EndpointSeries>,
    tokens: i64,
}

impl InFlight {
    /// Counts a request with so many tokens to compute.
    pub(crate) fn charge(series: Arc<EndpointSeries>, tokens: u64) -> Self {
        let tokens = tokens.min(i64::MAX as u64) as i64;
        if let Some((requests, in_flight)) = &series.flight {
            requests.inc();
            in_flight.inc_by(tokens);
        }
        Self { series, tokens }
    }

    /// The prompt is computed.
    pub(crate) fn prompt_done(&mut self) {
        if let Some((_, in_flight)) = &self.series.flight {
            in_flight.dec_by(std::mem::take(&mut self.tokens));
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.prompt_done();
        if let Some((requests, _)) = &self.series.flight {
            requests.dec();
        }
    }
}
