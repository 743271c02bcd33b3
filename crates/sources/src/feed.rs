//! The front: everything that is asked of every endpoint, started and stopped as endpoints come and go.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_core::{Clock, Slot};
use pointsman_fleet::{Fleet, FleetEvent};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::health::{HealthOptions, Probe};
use crate::http::{Connects, TlsClient};
use crate::page::Pages;
use crate::scrape::{Counters, ScrapeSource};
use crate::shard::{Command, Shard, Shared, Tally};

/// What is asked, and how often.
#[derive(Clone, Debug)]
pub struct SourcesOptions {
    /// Time between two fetches of one metrics page, where its source names no interval; at least
    /// [`SHORTEST_TICK`](crate::SHORTEST_TICK).
    pub base_interval: Duration,
    /// What fetching one metrics page may take, connecting included.
    pub scrape_timeout: Duration,
    /// How endpoints are checked; `None`: not at all, an endpoint is ready when discovery says so.
    pub health: Option<HealthOptions>,
    /// Time between two looks at an engine's list of models, at least 10 ms; `None`: never.
    pub models_interval: Option<Duration>,
    /// How engines reached over TLS are verified when their health and models are asked for.
    pub tls: TlsClient,
    /// Threads that fetch. One has time enough for several hundred engines at 50 ms, but a second one gets to run more often where the processors
    /// are busy with other things: with 500 engines and two busy loops on two cores, half as many pages again are made.
    pub threads: usize,
}

impl SourcesOptions {
    /// Pages every 50 ms with a second to answer, health every second, models every ten, on two threads.
    #[must_use]
    pub fn new(tls: TlsClient) -> Self {
        Self {
            base_interval: Duration::from_millis(50),
            scrape_timeout: Duration::from_secs(1),
            health: Some(HealthOptions::default()),
            models_interval: Some(Duration::from_secs(2)),
            tls,
            threads: 2,
        }
    }
}

/// How the sources fare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SourcesStats {
    /// Endpoints that are watched.
    pub endpoints: usize,
    /// Tasks alive: one for each page, health check and list of models of each endpoint.
    pub tasks: usize,
    /// Pages fetched.
    pub scrapes: u64,
    /// Fetches of a page that failed.
    pub failed_scrapes: u64,
    /// Pages that were complete only after the next one was due.
    pub late_scrapes: u64,
    /// Moments at which a page was due while the one before was still under way.
    pub dropped_ticks: u64,
}

/// Feeds a fleet with what its endpoints say of themselves, until stopped or dropped.
#[derive(Debug)]
pub struct Sources {
    links: Arc<Links>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    stats: Arc<Tally>,
}

#[derive(Debug)]
struct Links(Vec<UnboundedSender<Command>>);

impl Links {
    /// To the thread that has a slot. After the end nobody listens, which is fine.
    fn tell(&self, slot: Slot, command: Command) {
        let _ = self.0[slot.index() % self.0.len()].send(command);
    }
}

impl Sources {
    /// Starts threads, and follows the fleet from now on: endpoints that are there, and those that join and leave later.
    ///
    /// Until it was seen to work, an endpoint is not ready (when health checks are on).
    ///
    /// # Errors
    /// When the system gives no thread or no event queue.
    pub fn start(
        fleet: &Fleet,
        scrape: Vec<ScrapeSource>,
        options: SourcesOptions,
        clock: Arc<dyn Clock>,
        counters: Arc<dyn Counters>,
    ) -> io::Result<Self> {
        let stats = Arc::new(Tally::default());
        let shared = Arc::new(Shared {
            clock: Arc::clone(&clock),
            counters,
            connects: Arc::new(Connects::default()),
            pages: Arc::new(Pages::default()),
            stats: Arc::clone(&stats),
            tls: options.tls,
            base_interval: options.base_interval,
            scrape_timeout: options.scrape_timeout,
            health: options.health.clone().map(Arc::new),
            models_interval: options.models_interval,
        });
        let scrape = share(scrape);
        let (mut links, mut threads) = (Vec::new(), Vec::new());
        for n in 0..options.threads.max(1) {
            let (link, commands) = unbounded_channel();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (shared, scrape) = (Arc::clone(&shared), Arc::clone(&scrape));
            let thread = std::thread::Builder::new().name(format!("sources-{n}")).spawn(move || {
                runtime.block_on(async { Shard::new(shared, scrape).run(commands).await });
                // A name that is being resolved may take its time; nobody waits for it.
                runtime.shutdown_background();
            })?;
            links.push(link);
            threads.push(thread);
        }
        let links = Arc::new(Links(links));
        let told = Arc::clone(&links);
        let health = options.health;
        fleet.subscribe(Box::new(move |event| match event {
            FleetEvent::Added(endpoint) => {
                if told.0.iter().all(UnboundedSender::is_closed) {
                    return;
                }
                let probe = Probe::begin(endpoint, health.as_ref(), &*clock);
                told.tell(endpoint.slot, Command::Start(Arc::clone(endpoint), Some(Arc::new(probe))));
            }
            FleetEvent::Updated(endpoint) => told.tell(endpoint.slot, Command::Start(Arc::clone(endpoint), None)),
            FleetEvent::Removed(endpoint) => told.tell(endpoint.slot, Command::Stop(endpoint.id)),
        }));
        Ok(Self { links, threads: Mutex::new(threads), stats })
    }

    /// Fetches other pages from now on: after the configuration was loaded anew. What is known of health and models stays.
    pub fn set_scrape(&self, scrape: Vec<ScrapeSource>) {
        let scrape = share(scrape);
        for link in &self.links.0 {
            let _ = link.send(Command::Sources(Arc::clone(&scrape)));
        }
    }

    /// How the sources fare.
    #[must_use]
    pub fn stats(&self) -> SourcesStats {
        let Tally { endpoints, tasks, scrapes, failed_scrapes, late_scrapes, dropped_ticks } = &*self.stats;
        SourcesStats {
            endpoints: endpoints.load(Ordering::Relaxed),
            tasks: tasks.load(Ordering::Relaxed),
            scrapes: scrapes.load(Ordering::Relaxed),
            failed_scrapes: failed_scrapes.load(Ordering::Relaxed),
            late_scrapes: late_scrapes.load(Ordering::Relaxed),
            dropped_ticks: dropped_ticks.load(Ordering::Relaxed),
        }
    }

    /// Ends all tasks and threads, closes all connections, and waits for that: a matter of milliseconds. A second call does nothing.
    pub fn stop(&self) {
        for link in &self.links.0 {
            let _ = link.send(Command::Quit);
        }
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a sources thread ended in a panic");
            }
        }
    }
}

impl Drop for Sources {
    fn drop(&mut self) {
        self.stop();
    }
}

fn share(scrape: Vec<ScrapeSource>) -> Arc<[Arc<ScrapeSource>]> {
    scrape.into_iter().map(Arc::new).collect()
}
