//! Active health checks: is the engine there, does it say that it can serve?
//!
//! An endpoint is not ready until it was seen to work: a first answer that is good (or tells nothing), or a first usable metrics page. From then on
//! it goes out after several failures in a row and comes back after one success. A path that does not exist there (404) tells nothing: an
//! endpoint is never out for it.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::Clock;
use pointsman_fleet::{Condition, Endpoint, Labels};
use pointsman_plugins::data_layer::core_metrics_extractor::{LABEL, OLD_LABEL};
use tokio::time::{Instant, sleep_until, timeout};

use crate::http::{Ask, Client, Discard, FetchError, Peer};
use crate::shard::Shared;

/// Shortest time between two checks of one endpoint, whatever is asked for.
const SHORTEST: Duration = Duration::from_millis(10);

/// How endpoints are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthOptions {
    /// What is asked for, beginning with `/`; `None`: what engines of the endpoint's kind answer, as its label names it.
    pub path: Option<String>,
    /// Time between two checks of one endpoint; at least 10 ms.
    pub interval: Duration,
    /// What an answer may take.
    pub timeout: Duration,
    /// Failures in a row after which an endpoint is out; at least 1.
    pub failures: u32,
}

impl Default for HealthOptions {
    /// The engine's own path every second, a second to answer, out after two failures.
    fn default() -> Self {
        Self { path: None, interval: Duration::from_secs(1), timeout: Duration::from_secs(1), failures: 2 }
    }
}

impl HealthOptions {
    /// What an endpoint with these labels is asked for.
    fn path_for(&self, labels: &Labels) -> &str {
        if let Some(path) = &self.path {
            return path;
        }
        match labels.get(LABEL).or_else(|| labels.get(OLD_LABEL)) {
            // The inference protocol that Triton speaks has a path of its own for it.
            Some("triton" | "triton-tensorrt-llm") => "/v2/health/ready",
            _ => "/health",
        }
    }
}

/// What one check told.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Good,
    Unknown,
    Failing(String),
}

impl Answer {
    fn of(fetched: Result<hyper::StatusCode, FetchError>) -> Self {
        match fetched {
            Ok(status) if status.is_success() => Self::Good,
            Ok(status) if status == 404 => Self::Unknown,
            Ok(status) => Self::Failing(FetchError::Status(status.as_u16()).to_string()),
            Err(error) => Self::Failing(error.to_string()),
        }
    }
}

/// What is known of an endpoint's health; owner of its [`Condition::Probe`].
#[derive(Debug)]
pub(crate) struct Probe {
    stage: Mutex<Stage>,
    limit: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Unchecked,
    Up {
        failures: u32,
    },
    Down,
    /// Nobody checks.
    Off,
}

impl Probe {
    /// Begins to watch an endpoint: it is not ready until something good is known. Without `options` it is left alone.
    pub(crate) fn begin(endpoint: &Endpoint, options: Option<&HealthOptions>, clock: &dyn Clock) -> Self {
        let Some(options) = options else { return Self { stage: Mutex::new(Stage::Off), limit: 1 } };
        endpoint.health.set(Condition::Probe, Some("not checked yet".into()), clock);
        Self { stage: Mutex::new(Stage::Unchecked), limit: options.failures.max(1) }
    }

    /// A usable metrics page came: enough for an endpoint that was not checked yet, no news otherwise.
    pub(crate) fn scraped(&self, endpoint: &Endpoint, clock: &dyn Clock) {
        let mut stage = self.stage.lock();
        if *stage == Stage::Unchecked {
            *stage = Stage::Up { failures: 0 };
            endpoint.health.set(Condition::Probe, None, clock);
        }
    }

    fn answered(&self, answer: Answer, endpoint: &Endpoint, clock: &dyn Clock) {
        let mut stage = self.stage.lock();
        let before = *stage;
        let (after, reason) = match (before, answer) {
            (Stage::Off, _) => return,
            (_, Answer::Good | Answer::Unknown) => (Stage::Up { failures: 0 }, None),
            (Stage::Up { failures }, Answer::Failing(_)) if failures + 1 < self.limit => {
                *stage = Stage::Up { failures: failures + 1 };
                return;
            }
            (_, Answer::Failing(why)) => (Stage::Down, Some(format!("health check failed: {why}"))),
        };
        *stage = after;
        match &reason {
            Some(reason) if before != Stage::Down => {
                tracing::warn!(endpoint = %endpoint.name(), reason, "endpoint not ready");
            }
            None if before == Stage::Down => tracing::info!(endpoint = %endpoint.name(), "endpoint ready"),
            _ => {}
        }
        let told = endpoint.health.reason(Condition::Probe);
        if told.as_deref() != reason.as_deref() {
            endpoint.health.set(Condition::Probe, reason.map(Into::into), clock);
        }
    }
}

/// Checks one endpoint for ever, at once and then every interval.
pub(crate) async fn watch(
    endpoint: Arc<Endpoint>,
    probe: Arc<Probe>,
    options: Arc<HealthOptions>,
    shared: Arc<Shared>,
) {
    let peer = Peer::api(&endpoint.meta, &shared.tls);
    let get = Ask::get(&peer, options.path_for(&endpoint.meta.labels), "*/*");
    let mut client = Client::new(peer, Arc::clone(&shared.connects));
    loop {
        let begun = Instant::now();
        let fetched = match timeout(options.timeout, client.ask(&get, &mut Discard::default())).await {
            Ok(fetched) => fetched,
            Err(_) => Err(FetchError::Late(options.timeout)),
        };
        probe.answered(Answer::of(fetched), &endpoint, &*shared.clock);
        sleep_until((begun + options.interval.max(SHORTEST)).max(Instant::now())).await;
    }
}

#[cfg(test)]
mod tests {
    use pointsman_core::{EndpointName, ManualClock, Nanos};
    use pointsman_fleet::{Change, EndpointMeta, Fleet};

    use super::*;

    fn begin(options: Option<&HealthOptions>) -> (Arc<Endpoint>, Probe, Arc<ManualClock>) {
        let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
        let fleet = Fleet::new(clock.clone());
        let name = EndpointName::new("default", "a");
        let Change::Added(endpoint) = fleet.upsert(EndpointMeta::new(name, "10.0.0.1", 8000)) else { panic!("added") };
        let probe = Probe::begin(&endpoint, options, &*clock);
        (endpoint, probe, clock)
    }

    #[test]
    fn every_engine_kind_is_asked_for_the_path_it_answers_unless_one_is_given() {
        for (kind, want) in [
            ("vllm", "/health"),
            ("sglang", "/health"),
            ("trtllm-serve", "/health"),
            ("triton-tensorrt-llm", "/v2/health/ready"),
            ("triton", "/v2/health/ready"),
            ("llama-cpp", "/health"),
            ("tgi", "/health"),
            ("of-my-own", "/health"),
            ("", "/health"),
        ] {
            for label in [LABEL, OLD_LABEL] {
                let labels: Labels = [(label, kind)].into_iter().collect();
                assert_eq!(HealthOptions::default().path_for(&labels), want, "{label}={kind}");
                let given = HealthOptions { path: Some("/ping".into()), ..HealthOptions::default() };
                assert_eq!(given.path_for(&labels), "/ping");
            }
        }
        assert_eq!(HealthOptions::default().path_for(&Labels::default()), "/health");
        let both: Labels = [(LABEL, "vllm"), (OLD_LABEL, "triton")].into_iter().collect();
        assert_eq!(HealthOptions::default().path_for(&both), "/health", "the newer label decides");
    }

    fn failing() -> Answer {
        Answer::Failing("status 503".into())
    }

    #[test]
    fn an_endpoint_is_not_ready_until_it_was_seen_to_work() {
        for (answer, ready, reason) in [
            (Answer::Good, true, None),
            (Answer::Unknown, true, None),
            (failing(), false, Some("health check failed: status 503")),
        ] {
            let (endpoint, probe, clock) = begin(Some(&HealthOptions::default()));
            assert_eq!(endpoint.health.describe().reason.as_deref(), Some("not checked yet"));
            probe.answered(answer, &endpoint, &*clock);
            let report = endpoint.health.describe();
            assert_eq!((report.ready, report.reason.as_deref()), (ready, reason));
        }
        let (endpoint, probe, clock) = begin(Some(&HealthOptions::default()));
        probe.scraped(&endpoint, &*clock);
        assert!(endpoint.ready(), "a usable page is proof enough");
    }

    #[test]
    fn two_failures_in_a_row_put_it_out_and_one_success_brings_it_back() {
        let (endpoint, probe, clock) = begin(Some(&HealthOptions::default()));
        let steps = [
            (Answer::Good, true),
            (failing(), true),
            (Answer::Good, true),
            (failing(), true),
            (failing(), false),
            (failing(), false),
            (Answer::Good, true),
            (failing(), true),
            (Answer::Unknown, true),
            (failing(), true),
            (failing(), false),
            (Answer::Unknown, true),
        ];
        for (n, (answer, ready)) in steps.into_iter().enumerate() {
            probe.answered(answer, &endpoint, &*clock);
            assert_eq!(endpoint.ready(), ready, "after answer {n}");
        }
    }

    #[test]
    fn metrics_pages_do_not_overrule_a_failing_check() {
        let (endpoint, probe, clock) = begin(Some(&HealthOptions::default()));
        probe.answered(failing(), &endpoint, &*clock);
        probe.scraped(&endpoint, &*clock);
        assert!(!endpoint.ready());
    }

    #[test]
    fn the_reason_follows_the_last_failure_and_since_does_not_move() {
        let (endpoint, probe, clock) = begin(Some(&HealthOptions { failures: 1, ..HealthOptions::default() }));
        probe.answered(Answer::Good, &endpoint, &*clock);
        clock.advance(Duration::from_secs(1));
        probe.answered(failing(), &endpoint, &*clock);
        clock.advance(Duration::from_secs(1));
        probe.answered(Answer::Failing("connection refused".into()), &endpoint, &*clock);
        let report = endpoint.health.describe();
        assert_eq!(report.since, Nanos(2_000_000_000));
        assert_eq!(report.reason.as_deref(), Some("health check failed: connection refused"));
    }

    #[test]
    fn where_nobody_checks_an_endpoint_is_ready() {
        let (endpoint, probe, clock) = begin(None);
        assert!(endpoint.ready());
        probe.scraped(&endpoint, &*clock);
        assert!(endpoint.ready());
    }
}
