//! A pool to send requests through.

use bytes::Bytes;
use pointsman_config::Faults;
use pointsman_core::{Clock, EndpointName, ManualClock, Nanos};
use pointsman_fleet::{EndpointMeta, Scraped};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, Refused, RequestHead, Routed};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Bench {
    pub(crate) pool: Arc<Pool>,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) fn bench(names: &[&str], default: DefaultProfile, config: &str) -> Bench {
    bench_with(names, default, config, |options| options)
}

pub(crate) fn bench_with(
    names: &[&str],
    default: DefaultProfile,
    config: &str,
    change: impl FnOnce(PoolOptions) -> PoolOptions,
) -> Bench {
    // Draws among ties are then the same in every run.
    fastrand::seed(7);
    let states = Arc::<LearnedStates>::default();
    let options = CompileOptions { allow_experimental: true, default, states: Arc::clone(&states) };
    let mut faults = Faults::new();
    let compiled = compile(config.as_bytes(), &options, &mut faults).expect("a good configuration");
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let options = PoolOptions { clock: clock.clone(), states, stale_after: Duration::ZERO, ..PoolOptions::default() };
    let pool = Pool::new(change(options), compiled);
    for (i, name) in names.iter().enumerate() {
        let name = EndpointName::new("default", *name);
        pool.fleet.upsert(EndpointMeta::new(name, format!("10.0.0.{}", i + 1), 8000));
    }
    let bench = Bench { pool, clock };
    for name in names {
        bench.scraped(name, 0.0, 0.0);
    }
    bench
}

impl Bench {
    pub(crate) fn scraped(&self, name: &str, waiting: f64, kv: f64) {
        let scraped = Scraped { waiting: Some(waiting), running: Some(0.0), kv_usage: Some(kv), ..Scraped::default() };
        self.endpoint(name).engine.apply(self.clock.now(), &scraped);
    }

    pub(crate) fn endpoint(&self, name: &str) -> Arc<pointsman_fleet::Endpoint> {
        let snapshot = self.pool.fleet.snapshot();
        Arc::clone(snapshot.named(&EndpointName::new("default", name)).expect("it is there"))
    }

    pub(crate) fn send(&self, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Result<Routed, Refused> {
        self.send_to("/v1/completions", headers, body)
    }

    pub(crate) fn send_to(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<Routed, Refused> {
        let mut reading = self.pool.begin(RequestHead {
            transport: "gateway",
            method: "POST".into(),
            path: path.into(),
            headers: headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            received: self.clock.now(),
            subset: None,
        });
        reading.push(body.into());
        reading.decide()
    }

    pub(crate) fn prompt(&self, text: &str) -> Result<Routed, Refused> {
        self.send(&[("x-request-id", "r")], format!("{{\"model\":\"m\",\"prompt\":\"{text}\"}}"))
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.pool.fleet.snapshot().endpoints.iter().map(|e| e.load.requests() + e.load.tokens()).sum()
    }

    pub(crate) fn page(&self) -> String {
        self.pool.metrics.render(&self.pool.fleet.snapshot(), self.clock.now(), false)
    }
}

pub(crate) fn served(routed: &Routed) -> String {
    routed.endpoint().name().name.to_string()
}

/// A prompt of a few blocks that no other seed shares.
pub(crate) fn prompt(seed: usize) -> String {
    format!("{seed:016}").repeat(100)
}
