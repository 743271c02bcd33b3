//! One thread that fetches for a share of the endpoints.
//!
//! Fetching has a thread of its own, so that pages are never read between two steps of a request, and requests never delay a page. On it,
//! every page of every endpoint is a task: a slow engine delays nobody.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use pointsman_core::Clock;
use pointsman_fleet::Endpoint;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::health::{self, HealthOptions, Probe};
use crate::http::{Connects, TlsClient};
use crate::models;
use crate::page::Pages;
use crate::schedule::{self, Beat};
use crate::scrape::{Counters, ScrapeSource, ScrapeTask};

/// What all tasks share.
pub(crate) struct Shared {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<dyn Counters>,
    pub(crate) connects: Arc<Connects>,
    pub(crate) pages: Arc<Pages>,
    pub(crate) stats: Arc<Tally>,
    /// For endpoints reached over TLS.
    pub(crate) tls: TlsClient,
    pub(crate) base_interval: Duration,
    pub(crate) scrape_timeout: Duration,
    pub(crate) health: Option<Arc<HealthOptions>>,
    pub(crate) models_interval: Option<Duration>,
}

/// Running counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) endpoints: AtomicUsize,
    pub(crate) tasks: AtomicUsize,
    pub(crate) scrapes: AtomicU64,
    pub(crate) failed_scrapes: AtomicU64,
    pub(crate) late_scrapes: AtomicU64,
    pub(crate) dropped_ticks: AtomicU64,
}

/// What a shard is told, in order.
pub(crate) enum Command {
    /// An endpoint is there, or is described anew.
    Start(Arc<Endpoint>, Option<Arc<Probe>>),
    /// An endpoint left.
    Stop(u64),
    /// Other pages are wanted.
    Sources(Arc<[Arc<ScrapeSource>]>),
    /// The end.
    Quit,
}

struct Watched {
    endpoint: Arc<Endpoint>,
    probe: Arc<Probe>,
    scraping: Tasks,
    _checking: Tasks,
}

/// Tasks that end with their owner.
#[derive(Default)]
struct Tasks(Vec<AbortHandle>);

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// Counts a task for as long as it exists.
struct Counted(Arc<Tally>);

impl Counted {
    fn new(stats: &Arc<Tally>) -> Self {
        stats.tasks.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(stats))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.tasks.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Tasks {
    fn spawn(&mut self, stats: &Arc<Tally>, work: impl Future<Output = ()> + Send + 'static) {
        let counted = Counted::new(stats);
        let task = tokio::spawn(async move {
            let _counted = counted;
            work.await;
        });
        self.0.push(task.abort_handle());
    }
}

/// The endpoints of one thread.
pub(crate) struct Shard {
    shared: Arc<Shared>,
    sources: Arc<[Arc<ScrapeSource>]>,
    epoch: Instant,
    watched: HashMap<u64, Watched>,
}

impl Shard {
    pub(crate) fn new(shared: Arc<Shared>, sources: Arc<[Arc<ScrapeSource>]>) -> Self {
        Self { shared, sources, epoch: Instant::now(), watched: HashMap::new() }
    }

    /// Does what it is told until the end.
    pub(crate) async fn run(mut self, mut commands: UnboundedReceiver<Command>) {
        while let Some(command) = commands.recv().await {
            match command {
                Command::Start(endpoint, probe) => self.start(endpoint, probe),
                Command::Stop(id) => {
                    if self.watched.remove(&id).is_some() {
                        self.shared.stats.endpoints.fetch_sub(1, Ordering::Relaxed);
                    }
                }
                Command::Sources(sources) => {
                    self.sources = sources;
                    let ids: Vec<u64> = self.watched.keys().copied().collect();
                    for id in ids {
                        let Some(watched) = self.watched.get(&id) else { continue };
                        let scraping = self.scrape(&watched.endpoint, &watched.probe);
                        self.watched.entry(id).and_modify(|w| w.scraping = scraping);
                    }
                }
                Command::Quit => return,
            }
        }
    }

    /// An endpoint that is known already goes on with what its probe knows.
    fn start(&mut self, endpoint: Arc<Endpoint>, probe: Option<Arc<Probe>>) {
        let known = self.watched.remove(&endpoint.id);
        if known.is_none() && probe.is_some() {
            self.shared.stats.endpoints.fetch_add(1, Ordering::Relaxed);
        }
        let Some(probe) = known.map(|w| w.probe).or(probe) else { return };
        let scraping = self.scrape(&endpoint, &probe);
        let checking = self.check(&endpoint, &probe);
        self.watched.insert(endpoint.id, Watched { endpoint, probe, scraping, _checking: checking });
    }

    fn scrape(&self, endpoint: &Arc<Endpoint>, probe: &Arc<Probe>) -> Tasks {
        let shared = &self.shared;
        let tick = schedule::tick(shared.base_interval, self.sources.iter().map(|s| s.interval));
        let mut tasks = Tasks::default();
        for source in self.sources.iter() {
            // A source that names no interval keeps the base one, however often another one is asked.
            let period = schedule::period(tick, source.interval.or(Some(shared.base_interval)));
            let beat = Beat::new(self.epoch, period, endpoint.slot.0);
            // The first page soon, however long the period; then on the beat.
            let first = Beat::new(self.epoch, tick, endpoint.slot.0).after(Instant::now());
            let task = ScrapeTask {
                endpoint: Arc::clone(endpoint),
                source: Arc::clone(source),
                beat,
                probe: Arc::clone(probe),
                shared: Arc::clone(shared),
            };
            tasks.spawn(&shared.stats, task.run(first));
        }
        if let Some(interval) = shared.models_interval.filter(|_| !self.sources.iter().any(|s| s.lists_models())) {
            tasks.spawn(&shared.stats, models::watch(Arc::clone(endpoint), interval, Arc::clone(shared)));
        }
        tasks
    }

    fn check(&self, endpoint: &Arc<Endpoint>, probe: &Arc<Probe>) -> Tasks {
        let shared = &self.shared;
        let mut tasks = Tasks::default();
        if let Some(options) = &shared.health {
            let work = health::watch(Arc::clone(endpoint), Arc::clone(probe), Arc::clone(options), Arc::clone(shared));
            tasks.spawn(&shared.stats, work);
        }
        tasks
    }
}
