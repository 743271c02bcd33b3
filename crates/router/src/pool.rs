//! A pool: a fleet, the configuration in force, and all that is kept about requests to it. A value, not a global: a process may hold several.

use crate::head::RequestHead;
use crate::metrics::Metrics;
use crate::read::Reading;
use crate::reload::Reloads;
use crate::shadow::{Counts, Shadow};
use arc_swap::{ArcSwap, ArcSwapOption};
use pointsman_config::Faults;
use pointsman_core::{Clock, Timer};
use pointsman_fleet::{Fleet, FleetEvent};
use pointsman_plugins::producers::token_producer::render::RenderClient;
use pointsman_plugins::{CompileOptions, Compiled, DefaultProfile, LearnedStates, compile};
use pointsman_scheduling::record::{Decision, DecisionIds, Ring};
use pointsman_trace::Tracer;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// What a pool is made with.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    /// Name, a label of its metrics.
    pub name: String,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// What plugins have learned; shared with the compilation.
    pub states: Arc<LearnedStates>,
    /// Bytes of decision records kept.
    pub record_bytes: usize,
    /// Whether records hold the (salted) block hashes of prompts.
    pub record_block_hashes: bool,
    /// Whether records hold how prompts begin, 4 KiB of each.
    pub show_prompts: bool,
    /// Age at which an engine's gauges count as unknown; zero keeps them for ever.
    pub stale_after: Duration,
    /// Whether metrics are exported under their deprecated names too.
    pub old_metric_names: bool,
    /// Who traces requests. `None`: nobody, and what clients say of their traces travels on untouched.
    pub tracer: Option<Arc<Tracer>>,
    /// Who waits for moments of the clock. `None`: nobody, and no request is held back.
    pub timer: Option<Arc<dyn Timer>>,
    /// Who posts what is to be rendered. `None`: nobody, and tokens are estimated.
    pub render: Option<Arc<dyn RenderClient>>,
}

impl Default for PoolOptions {
    fn default() -> Self {
        Self {
            name: "default".to_owned(),
            clock: Arc::new(pointsman_core::SystemClock::default()),
            states: Arc::default(),
            record_bytes: 8 << 20,
            record_block_hashes: false,
            show_prompts: false,
            stale_after: Duration::from_secs(2),
            old_metric_names: true,
            tracer: None,
            timer: None,
            render: None,
        }
    }
}

/// A configuration in force.
#[derive(Debug)]
pub struct Active {
    /// Grows with each configuration that took force, from 1.
    pub version: u64,
    /// What was compiled.
    pub compiled: Compiled,
}

/// Told of every decision whose request is over.
pub type FinishedListener = Box<dyn Fn(&Arc<Decision>) + Send + Sync>;

/// A pool. See the [module](self).
pub struct Pool {
    /// Its name.
    pub name: Arc<str>,
    /// Where time comes from.
    pub clock: Arc<dyn Clock>,
    /// Its endpoints.
    pub fleet: Arc<Fleet>,
    /// The newest decision records.
    pub ring: Ring,
    /// Its metrics.
    pub metrics: Metrics,
    pub(crate) ids: DecisionIds,
    pub(crate) stale_after: Duration,
    pub(crate) record_block_hashes: bool,
    /// Whether records hold how prompts begin.
    pub show_prompts: bool,
    pub(crate) tracer: Option<Arc<Tracer>>,
    pub(crate) timer: Option<Arc<dyn Timer>>,
    /// Who posts what is to be rendered.
    pub render: Option<Arc<dyn RenderClient>>,
    pub(crate) reloads: Reloads,
    pub(crate) shadow: ArcSwapOption<Shadow>,
    pub(crate) shadow_counts: Arc<Counts>,
    active: ArcSwap<Active>,
    pub(crate) states: Arc<LearnedStates>,
    finished: OnceLock<FinishedListener>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool without endpoints.
    #[must_use]
    pub fn new(options: PoolOptions, compiled: Compiled) -> Arc<Self> {
        let metrics = Metrics::new(&options.name, options.stale_after, options.old_metric_names);
        let fleet = Arc::new(Fleet::new(Arc::clone(&options.clock)));
        let pool = Arc::new(Self {
            name: options.name.into(),
            clock: options.clock,
            fleet,
            ring: Ring::new(options.record_bytes),
            active: ArcSwap::from_pointee(Active { version: 1, compiled: timed(compiled, &metrics) }),
            metrics,
            ids: DecisionIds::default(),
            stale_after: options.stale_after,
            record_block_hashes: options.record_block_hashes,
            show_prompts: options.show_prompts,
            tracer: options.tracer,
            timer: options.timer,
            render: options.render,
            states: options.states,
            reloads: Reloads::default(),
            shadow: ArcSwapOption::empty(),
            shadow_counts: Arc::default(),
            finished: OnceLock::new(),
        });
        pool.metrics.register(|registry| {
            pool.reloads.register(registry);
            pool.shadow_counts.register(registry);
        });
        pool.begin_version(&pool.active());
        let of = Arc::downgrade(&pool);
        pool.fleet.subscribe(Box::new(move |event| {
            if let (Some(pool), FleetEvent::Removed(endpoint)) = (of.upgrade(), event) {
                pool.states.endpoint_left(endpoint);
                pool.metrics.endpoint_left(endpoint);
            }
        }));
        pool
    }

    /// The configuration in force.
    #[must_use]
    pub fn active(&self) -> Arc<Active> {
        self.active.load_full()
    }

    /// Compiles a document over what this pool's plugins have learned.
    pub fn recompile(
        &self,
        document: &[u8],
        allow_experimental: bool,
        default: DefaultProfile,
        faults: &mut Faults,
    ) -> Option<Compiled> {
        let options = CompileOptions { allow_experimental, default, states: Arc::clone(&self.states) };
        compile(document, &options, faults)
    }

    /// Puts another configuration in force, for requests that begin from now on. What plugins learned stays.
    pub fn activate(&self, compiled: Compiled) -> u64 {
        let version = self.active.load().version + 1;
        let active = Arc::new(Active { version, compiled: timed(compiled, &self.metrics) });
        self.begin_version(&active);
        self.active.store(active);
        version
    }

    /// What a plugin instance has learned, for a person; `None` where it keeps nothing.
    #[must_use]
    pub fn learned(&self, type_name: &'static str, name: &Arc<str>) -> Option<serde_json::Value> {
        self.states.dump(type_name, name, &self.fleet.load())
    }

    /// Slow work, to be called about once a second.
    pub fn housekeeping(&self) {
        self.states.refresh(&self.fleet.load());
    }

    /// Sets who is told of every decision whose request is over; the first to ask stays.
    pub fn on_finished(&self, listener: FinishedListener) {
        let _ = self.finished.set(listener);
    }

    pub(crate) fn tell_finished(&self, decision: &Arc<Decision>) {
        if let Some(listener) = self.finished.get() {
            listener(decision);
        }
    }

    /// Step one of a request: its head is here.
    #[must_use]
    pub fn begin(self: &Arc<Self>, head: RequestHead) -> Reading {
        Reading::new(Arc::clone(self), head)
    }
}

/// Wires the plugins' durations to the metrics.
fn timed(mut compiled: Compiled, metrics: &Metrics) -> Compiled {
    let time = |point, type_name: &str, name: &str| metrics.plugin_timing(point, type_name, name);
    let s = &mut compiled.scheduler;
    s.handler.timing = time("ProfilePicker", &s.handler.type_name, &s.handler.name);
    for profile in &mut s.profiles {
        for f in &mut profile.filters {
            f.timing = time("Filter", &f.type_name, &f.name);
        }
        for w in &mut profile.scorers {
            w.scorer.timing = time("Scorer", &w.scorer.type_name, &w.scorer.name);
            metrics.count_nan_of(&w.scorer.name, &w.scorer.nan);
        }
        profile.picker.timing = time("Picker", &profile.picker.type_name, &profile.picker.name);
    }
    for p in &mut compiled.producers {
        p.timing = time("DataProducer", &p.type_name, &p.name);
    }
    for b in &mut compiled.batchers {
        b.timing = time("DataProducer", &b.type_name, &b.name);
    }
    for h in &mut compiled.request_hooks {
        h.timing = time("RequestHeader", &h.type_name, &h.name);
    }
    for a in &mut compiled.admitters {
        a.timing = time("Admission", &a.type_name, &a.name);
    }
    for h in &mut compiled.usage_hooks {
        h.timing = time("ResponseStreaming", &h.type_name, &h.name);
    }
    for h in &mut compiled.response_hooks {
        h.timing = time("ResponseReceived", &h.type_name, &h.name);
    }
    for h in &mut compiled.hooks {
        h.timing = time("PreRequest", &h.type_name, &h.name);
    }
    let plugins = &compiled.plugins;
    metrics.retain_plugins(|type_name, name| {
        plugins.iter().any(|p| *p.name == *name && (type_name.is_empty() || p.type_name == type_name))
    });
    metrics.follow_prefix(&compiled.prefix);
    compiled
}
