//! Passive ejection: endpoints that fail requests are put aside for a while.
//!
//! [`Breaker`] decides for one endpoint; [`Ejector`] applies what it decides to the endpoint's readiness, keeps at least half of the fleet in, and waits for
//! the end of each ejection. The router learns of it the way it learns of everything: the endpoint is not ready.

mod breaker;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::Clock;
use pointsman_fleet::{Condition, Endpoint, Fleet};

use crate::EjectionOptions;
use crate::metrics::GatewayMetrics;
pub(crate) use breaker::FailureKind;
use breaker::{Breaker, Effect};

/// What the gateway remembers of one endpoint's failures.
#[derive(Debug)]
pub(crate) struct Record {
    /// Whether the breaker has nothing to remember: spares healthy endpoints the lock.
    quiet: AtomicBool,
    breaker: Mutex<Breaker>,
}

impl Default for Record {
    fn default() -> Self {
        Self { quiet: AtomicBool::new(true), breaker: Mutex::default() }
    }
}

/// Puts failing endpoints of one fleet aside.
#[derive(Debug)]
pub(crate) struct Ejector {
    fleet: Arc<Fleet>,
    clock: Arc<dyn Clock>,
    options: EjectionOptions,
    metrics: GatewayMetrics,
    /// Held while one is put aside, so that two at a time do not both find room for the last.
    gate: Mutex<()>,
}

impl Ejector {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        clock: Arc<dyn Clock>,
        options: EjectionOptions,
        metrics: GatewayMetrics,
    ) -> Self {
        Self { fleet, clock, options, metrics, gate: Mutex::new(()) }
    }

    /// A request goes to `endpoint`; tell the attempt how it ended.
    pub(crate) fn attempt(self: &Arc<Self>, endpoint: &Arc<Endpoint>, record: &Arc<Record>) -> Attempt {
        if !record.quiet.load(Ordering::Relaxed) {
            let mut breaker = record.breaker.lock();
            let others = || self.fleet.load().endpoints.iter().any(|e| e.id != endpoint.id && e.ready());
            if breaker.attempt(others) == Effect::Hold {
                self.set(endpoint, Some("half-open: waiting for the outcome of one trial request".into()));
            }
        }
        Attempt { ejector: Arc::clone(self), endpoint: Arc::clone(endpoint), record: Arc::clone(record), told: false }
    }

    fn success(&self, endpoint: &Endpoint, record: &Record) {
        if record.quiet.load(Ordering::Relaxed) {
            return;
        }
        let mut breaker = record.breaker.lock();
        let effect = breaker.success();
        record.quiet.store(breaker.quiet(), Ordering::Relaxed);
        if effect == Effect::Release {
            self.set(endpoint, None);
        }
    }

    fn failure(self: &Arc<Self>, endpoint: &Arc<Endpoint>, record: &Arc<Record>, kind: FailureKind, error: &str) {
        let _gate = self.gate.lock();
        let mut breaker = record.breaker.lock();
        let effect = breaker.failure(kind, self.clock.now(), &self.options, || self.room_for(endpoint));
        record.quiet.store(breaker.quiet(), Ordering::Relaxed);
        match effect {
            Effect::Eject => {
                let failures = breaker.failures();
                let reason = match kind {
                    FailureKind::Connect => format!("ejected: {error}"),
                    FailureKind::Answer => format!("ejected after {failures} failures in a row, the last: {error}"),
                };
                tracing::warn!(endpoint = %endpoint.name(), address = endpoint.host_port(), "{reason}");
                self.metrics.ejections.inc();
                self.set(endpoint, Some(reason.into()));
                tokio::spawn(Arc::clone(self).await_return(Arc::clone(endpoint), Arc::clone(record)));
            }
            Effect::Release => self.set(endpoint, None),
            Effect::None | Effect::Hold => {}
        }
    }

    fn abandoned(&self, endpoint: &Endpoint, record: &Record) {
        if record.quiet.load(Ordering::Relaxed) {
            return;
        }
        let mut breaker = record.breaker.lock();
        if breaker.abandoned() == Effect::Release {
            self.set(endpoint, None);
        }
    }

    /// Whether one more than those out already is at most half of the fleet.
    fn room_for(&self, endpoint: &Endpoint) -> bool {
        let fleet = self.fleet.load();
        let out = fleet.endpoints.iter().filter(|e| e.id != endpoint.id && e.health.has(Condition::Ejected)).count();
        (out + 1) * 2 <= fleet.endpoints.len()
    }

    fn set(&self, endpoint: &Endpoint, reason: Option<Arc<str>>) {
        endpoint.health.set(Condition::Ejected, reason, &*self.clock);
    }

    /// Waits for the end of an ejection: its time, or, where it was for refused connections, the first one accepted.
    async fn await_return(self: Arc<Self>, endpoint: Arc<Endpoint>, record: Arc<Record>) {
        loop {
            let Some((until, kind)) = record.breaker.lock().until() else { return };
            let left = until.since(self.clock.now());
            // Short naps in any case: an endpoint that leaves the fleet should not be kept for minutes.
            let nap = left.min(self.options.probe_interval).max(Duration::from_millis(1));
            tokio::time::sleep(nap).await;
            if endpoint.left() {
                return;
            }
            let over = self.clock.now() >= until;
            if over || (kind == FailureKind::Connect && self.accepts(&endpoint).await) {
                let mut breaker = record.breaker.lock();
                if breaker.return_half_open() == Effect::Release {
                    self.set(&endpoint, None);
                }
                tracing::info!(endpoint = %endpoint.name(), address = endpoint.host_port(), "back on trial after an ejection");
                return;
            }
        }
    }

    async fn accepts(&self, endpoint: &Endpoint) -> bool {
        let meta = &endpoint.meta;
        let connect = tokio::net::TcpStream::connect((meta.address.trim_matches(['[', ']']), meta.port));
        matches!(tokio::time::timeout(self.options.probe_interval, connect).await, Ok(Ok(_)))
    }
}

/// One request on its way to one endpoint. Dropped without a word, it says nothing about the endpoint.
#[derive(Debug)]
pub(crate) struct Attempt {
    ejector: Arc<Ejector>,
    endpoint: Arc<Endpoint>,
    record: Arc<Record>,
    told: bool,
}

impl Attempt {
    /// The endpoint answered with this status.
    pub(crate) fn answered(mut self, status: u16) {
        self.told = true;
        if matches!(status, 502..=504) {
            self.ejector.failure(&self.endpoint, &self.record, FailureKind::Answer, &format!("status {status}"));
        } else {
            self.ejector.success(&self.endpoint, &self.record);
        }
    }

    /// It did not answer.
    pub(crate) fn failed(mut self, kind: FailureKind, error: &str) {
        self.told = true;
        self.ejector.failure(&self.endpoint, &self.record, kind, error);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.told {
            self.ejector.abandoned(&self.endpoint, &self.record);
        }
    }
}

#[cfg(test)]
mod tests {
    use pointsman_core::{EndpointName, ManualClock, Nanos};
    use pointsman_fleet::EndpointMeta;
    use tokio::net::TcpListener;

    use super::*;

    fn fleet(ports: &[u16]) -> (Arc<Fleet>, Arc<ManualClock>, Arc<Ejector>) {
        let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
        let fleet = Arc::new(Fleet::new(Arc::clone(&clock) as Arc<dyn Clock>));
        for (i, port) in ports.iter().enumerate() {
            fleet.upsert(EndpointMeta::new(EndpointName::new("default", format!("e{i}")), "127.0.0.1", *port));
        }
        let options = EjectionOptions { probe_interval: Duration::from_millis(10), ..Default::default() };
        let ejector =
            Ejector::new(Arc::clone(&fleet), Arc::clone(&clock) as Arc<dyn Clock>, options, GatewayMetrics::default());
        (fleet, clock, Arc::new(ejector))
    }

    async fn until(mut what: impl FnMut() -> bool) {
        for _ in 0..500 {
            if what() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("did not happen");
    }

    #[tokio::test]
    async fn never_more_than_half_of_the_fleet_is_out() {
        for (size, most) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2)] {
            // Port 9 (discard) is closed: nothing comes back by itself.
            let (fleet, _clock, ejector) = fleet(&vec![9; size]);
            for endpoint in &fleet.snapshot().endpoints {
                let record = Arc::default();
                ejector.attempt(endpoint, &record).failed(FailureKind::Connect, "connection refused");
            }
            assert_eq!(size - fleet.snapshot().ready(), most, "of {size}");
        }
    }

    #[tokio::test]
    async fn an_endpoint_that_listens_again_comes_back_before_its_time() {
        let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = closed.local_addr().unwrap();
        drop(closed);
        let (fleet, _clock, ejector) = fleet(&[address.port(), 9]);
        let endpoint = Arc::clone(&fleet.snapshot().endpoints[0]);
        let record = Arc::default();
        ejector.attempt(&endpoint, &record).failed(FailureKind::Connect, "connection refused");
        assert_eq!(endpoint.health.reason(Condition::Ejected).as_deref(), Some("ejected: connection refused"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!endpoint.ready(), "nobody listens yet");
        let _listens = TcpListener::bind(address).await.unwrap();
        until(|| endpoint.ready()).await;
        let trial = ejector.attempt(&endpoint, &record);
        assert!(!endpoint.ready(), "one trial at a time");
        trial.answered(200);
        assert!(endpoint.ready() && record.quiet.load(Ordering::Relaxed));
    }

    #[tokio::test]
    async fn an_endpoint_that_answers_badly_stays_out_for_its_time() {
        let listens = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (fleet, clock, ejector) = fleet(&[listens.local_addr().unwrap().port(), 9]);
        let endpoint = Arc::clone(&fleet.snapshot().endpoints[0]);
        let record = Arc::default();
        for _ in 0..5 {
            assert!(endpoint.ready());
            ejector.attempt(&endpoint, &record).answered(503);
        }
        assert_eq!(
            endpoint.health.reason(Condition::Ejected).as_deref(),
            Some("ejected after 5 failures in a row, the last: status 503")
        );
        clock.advance(Duration::from_secs(9));
        tokio::time::sleep(Duration::from_millis(60)).await;
        assert!(!endpoint.ready(), "an open port is no proof here");
        clock.advance(Duration::from_secs(1));
        until(|| endpoint.ready()).await;
        drop(ejector.attempt(&endpoint, &record));
        assert!(endpoint.ready(), "a trial whose client left makes room for the next");
        ejector.attempt(&endpoint, &record).answered(503);
        assert!(!endpoint.ready(), "a failed trial ejects again");
    }
}
