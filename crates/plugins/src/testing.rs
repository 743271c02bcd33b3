//! A bench to try one plugin on: endpoints with made-up state.

use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::{Endpoint, EndpointMeta, Fleet, Labels, LoraInfo, Scraped, Snapshot};
use pointsman_scheduling::{Candidate, Cycle, Facts, Filter, Request, Scope, Scorer};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Default)]
pub(crate) struct Made {
    name: String,
    labels: Vec<(String, String)>,
    scraped: Scraped,
    in_flight: u64,
}

pub(crate) fn endpoint(name: &str) -> Made {
    Made { name: name.to_owned(), ..Made::default() }
}

impl Made {
    pub(crate) fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.to_owned(), value.to_owned()));
        self
    }
    pub(crate) fn waiting(mut self, v: f64) -> Self {
        self.scraped.waiting = Some(v);
        self
    }
    pub(crate) fn running(mut self, v: f64) -> Self {
        self.scraped.running = Some(v);
        self
    }
    pub(crate) fn kv(mut self, v: f64) -> Self {
        self.scraped.kv_usage = Some(v);
        self
    }
    pub(crate) fn lora(mut self, v: LoraInfo) -> Self {
        self.scraped.lora = Some(v);
        self
    }
    pub(crate) fn in_flight(mut self, v: u64) -> Self {
        self.in_flight = v;
        self
    }
}

pub(crate) struct Bench {
    snapshot: Arc<Snapshot>,
}

impl Bench {
    pub(crate) fn new(made: impl IntoIterator<Item = Made>) -> Self {
        let now = Nanos(1_000_000_000);
        let fleet = Fleet::new(Arc::new(ManualClock::at(now)));
        for (i, made) in made.into_iter().enumerate() {
            let name = EndpointName::new("default", made.name.clone());
            let mut meta = EndpointMeta::new(name.clone(), format!("10.0.0.{}", i + 1), 8000);
            meta.labels = made.labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Labels>();
            fleet.upsert(meta);
            let snapshot = fleet.snapshot();
            let endpoint = snapshot.named(&name).expect("just added");
            endpoint.engine.apply(now, &made.scraped);
            endpoint.load.charge(made.in_flight, 0);
        }
        Self { snapshot: fleet.snapshot() }
    }

    pub(crate) fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.snapshot.endpoints
    }

    fn with<R>(&self, run: impl FnOnce(&Cycle<'_>, Scope<'_>) -> R) -> R {
        let now = Nanos(1_000_000_000);
        let all: Vec<Candidate<'_>> = self
            .snapshot
            .endpoints
            .iter()
            .enumerate()
            .map(|(i, e)| Candidate::read(e, i as u32, now, Duration::ZERO))
            .collect();
        let kept: Vec<u32> = (0..all.len() as u32).collect();
        let (request, facts) = (Request::default(), Facts::default());
        run(&Cycle { request: &request, facts: &facts, now }, Scope { all: &all, kept: &kept })
    }

    pub(crate) fn scores(&self, scorer: &dyn Scorer) -> Vec<f64> {
        self.with(|cycle, scope| {
            let mut out = vec![0.0; scope.len()];
            scorer.score(cycle, scope, &mut out);
            out
        })
    }

    pub(crate) fn kept(&self, filter: &dyn Filter) -> Vec<String> {
        self.with(|cycle, scope| {
            let mut gone = Vec::new();
            filter.filter(cycle, scope, &mut |i, _| gone.push(i));
            let names = scope.iter().enumerate().filter(|(i, _)| !gone.contains(i));
            names.map(|(_, (_, c))| c.endpoint.name().name.to_string()).collect()
        })
    }
}
