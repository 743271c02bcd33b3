//! A bench to try one plugin on: endpoints with made-up state.

use pointsman_config::{Faults, Severity};
use pointsman_core::{EndpointName, ManualClock, Nanos, Refusal};
use pointsman_fleet::{Endpoint, EndpointMeta, Fleet, Labels, LoraInfo, Scraped, Snapshot};
use pointsman_scheduling::{
    AddedHeaders, Answer, Answered, Candidate, Chosen, Columns, Cycle, Facts, Filter, Held, Hooks, ProfileHandler,
    Request, Role, Scope, Scorer, Served, Stage, StagePick, Stages,
};
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
    pub(crate) fn attribute(mut self, name: &str, producer: &str, v: f64) -> Self {
        self.scraped.attributes.push((pointsman_fleet::attribute_key(name, producer), v));
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

/// Endpoints, a request and facts to try a plugin on.
pub(crate) struct Bench {
    snapshot: Arc<Snapshot>,
    /// The request; a test may put anything into it.
    pub(crate) request: Request,
    /// What producers said; see [`Bench::columns`].
    pub(crate) facts: Facts,
    pub(crate) peer: Option<u32>,
    pub(crate) seed: u64,
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
        Self { snapshot: fleet.snapshot(), request: Request::default(), facts: Facts::default(), peer: None, seed: 1 }
    }

    /// With a header on the request.
    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        let mut headers = self.request.headers.to_vec();
        headers.push((name.into(), value.into()));
        self.request.headers = headers.into();
        self
    }

    /// Room for facts: `let (mut bench, id) = bench.columns(|c| c.column::<PrefixMatch>())`, then `bench.facts.fill(id, ..)`.
    pub(crate) fn columns<R>(mut self, ask: impl FnOnce(&mut Columns) -> R) -> (Self, R) {
        let mut columns = Columns::default();
        let ids = ask(&mut columns);
        self.facts = columns.facts();
        (self, ids)
    }

    pub(crate) fn endpoints(&self) -> &[Arc<Endpoint>] {
        &self.snapshot.endpoints
    }

    /// Calls `run` with a cycle over every endpoint.
    pub(crate) fn with<R>(&self, run: impl FnOnce(&Cycle<'_>, Scope<'_>) -> R) -> R {
        let now = Nanos(1_000_000_000);
        let all: Vec<Candidate<'_>> = self
            .snapshot
            .endpoints
            .iter()
            .enumerate()
            .map(|(i, e)| Candidate::read(e, i as u32, now, Duration::ZERO))
            .collect();
        let kept: Vec<u32> = (0..all.len() as u32).collect();
        let cycle =
            Cycle { request: &self.request, facts: &self.facts, now, peer: self.peer, seed: self.seed, shadow: false };
        run(&cycle, Scope { all: &all, kept: &kept })
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

/// The state in which a profile handler is asked; profiles have no candidates behind them.
pub(crate) struct Staging {
    pub(crate) request: Request,
    pub(crate) facts: Facts,
    pub(crate) done: Vec<Option<Stage>>,
    pub(crate) peer: Option<u32>,
}

impl Staging {
    /// That many profiles, none of which ran.
    pub(crate) fn new(profiles: usize) -> Self {
        Self {
            request: Request::default(),
            facts: Facts::default(),
            done: (0..profiles).map(|_| None).collect(),
            peer: None,
        }
    }

    /// Which profiles the handler runs next.
    pub(crate) fn next(&mut self, handler: &dyn ProfileHandler) -> Vec<usize> {
        let mut next = Vec::new();
        let Self { request, facts, done, peer } = self;
        handler.next(&mut Stages { request, facts, candidates: &[], done, next: &mut next, peer });
        next
    }

    /// What the handler makes of them.
    pub(crate) fn answer(&mut self, handler: &dyn ProfileHandler) -> Result<Answer, Refusal> {
        let Self { request, facts, done, peer } = self;
        handler.answer(&Stages { request, facts, candidates: &[], done, next: &mut Vec::new(), peer })
    }
}

/// Calls `run` with the response of an endpoint named `a`.
pub(crate) fn answered<R>(served: Served<'_>, run: impl FnOnce(&Answered<'_>) -> R) -> R {
    let bench = Bench::new([endpoint("a")]);
    let (request, profile) = (Request::default(), Arc::from("default"));
    run(&Answered { request: &request, endpoint: &bench.endpoints()[0], profile: &profile, others: &[], served })
}

/// Compiles a document: the result with its warnings, or the errors, each as one line.
pub(crate) fn compiled(document: &str) -> Result<(crate::Compiled, Vec<String>), Vec<String>> {
    let mut faults = Faults::new();
    let options =
        crate::CompileOptions { allow_experimental: true, default: crate::DefaultProfile::Epp, states: Arc::default() };
    let compiled = crate::compile(document.as_bytes(), &options, &mut faults);
    let of = |severity| faults.iter().filter(|f| f.severity == severity).map(ToString::to_string).collect();
    match compiled {
        Some(compiled) => Ok((compiled, of(Severity::Warning))),
        None => Err(of(Severity::Error)),
    }
}

/// What `hook` puts on a request that goes to the endpoint `to`, while other profiles chose `others`; and what it holds.
pub(crate) fn chosen(
    bench: &Bench,
    hook: &dyn Hooks,
    to: usize,
    others: &[(&str, Role, &[usize])],
) -> (AddedHeaders, Option<Box<dyn Held>>) {
    let endpoints = bench.endpoints();
    let others: Vec<StagePick> = others
        .iter()
        .map(|(profile, role, picks)| StagePick {
            profile: Arc::from(*profile),
            role: *role,
            endpoints: picks.iter().map(|&i| Arc::clone(&endpoints[i])).collect(),
            candidates: picks.iter().map(|&i| i as u32).collect(),
        })
        .collect();
    let mut headers = AddedHeaders::new();
    let held = hook.chosen(
        &Chosen {
            request: &bench.request,
            facts: &bench.facts,
            profile: "default",
            endpoint: &endpoints[to],
            candidate: to,
            candidates: endpoints.len(),
            others: &others,
        },
        &mut headers,
    );
    (headers, held)
}
