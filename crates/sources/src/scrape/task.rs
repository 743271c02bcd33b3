//! Fetching one page of one endpoint, again and again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_fleet::Endpoint;
use pointsman_plugins::data_layer::source::Page;
use tokio::time::{Instant, sleep_until, timeout};

use crate::health::Probe;
use crate::http::{Ask, Client, Discard, FetchError, Peer};
use crate::page::Page as Fetched;
use crate::schedule::Beat;
use crate::scrape::complaint::{Complaint, Reading};
use crate::scrape::{Extractor, Missing, ScrapeSource};
use crate::shard::Shared;

/// Longest pause after failures.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const ACCEPT: &str = "text/plain;version=0.0.4,*/*;q=0.1";

/// The loop over one page.
pub(crate) struct ScrapeTask {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) source: Arc<ScrapeSource>,
    pub(crate) beat: Beat,
    pub(crate) probe: Arc<Probe>,
    pub(crate) shared: Arc<Shared>,
}

impl ScrapeTask {
    /// Never ends by itself, unless the page is nowhere.
    ///
    /// A moment of the beat that passes while a fetch is under way is dropped, unless it has just passed and the fetch was quick. After a failure, moments are skipped for a pause that doubles up to
    /// a second: an engine that is gone is asked once a second, one that comes back is on its old beat again.
    pub(crate) async fn run(self, first: Instant) {
        let Self { source, endpoint, shared, .. } = &self;
        let Some(peer) = Peer::of_page(&endpoint.meta, &source.at, &source.tls) else {
            let source = source.type_name;
            tracing::warn!(endpoint = %endpoint.name(), source, "the page cannot be fetched: its node's address is not known");
            return;
        };
        let accept = match source.page {
            Page::Metrics => ACCEPT,
            Page::Models => "application/json",
        };
        let get = Ask::get(&peer, &source.path, accept);
        let mut client = Client::new(peer, Arc::clone(&shared.connects));
        let stats = &shared.stats;
        let mut pause = Duration::ZERO;
        let mut complaint = Complaint::default();
        let mut lost = false;
        let mut due = first;
        loop {
            sleep_until(due).await;
            let begun = Instant::now();
            let fetched = match timeout(shared.scrape_timeout, self.once(&mut client, &get)).await {
                Ok(fetched) => fetched,
                Err(_) => Err(FetchError::Late(shared.scrape_timeout)),
            };
            let now = Instant::now();
            match fetched {
                Ok(reading) => {
                    stats.scrapes.fetch_add(1, Ordering::Relaxed);
                    if lost && reading.usable {
                        tracing::info!(endpoint = %endpoint.name(), path = source.path, "the page is back");
                        lost = false;
                    }
                    if complaint.news(now, reading) {
                        self.tell(reading);
                    }
                    pause = Duration::ZERO;
                    stats.late_scrapes.fetch_add(u64::from(now >= due + self.beat.period()), Ordering::Relaxed);
                    let next = self.beat.next(due, begun, now);
                    stats.dropped_ticks.fetch_add(self.beat.skipped(due, next), Ordering::Relaxed);
                    due = next;
                }
                Err(error) => {
                    client.close();
                    self.failed(&error, !lost);
                    lost = true;
                    pause = (pause * 2).clamp(self.beat.period().min(LONGEST_PAUSE), LONGEST_PAUSE);
                    due = self.beat.after(now + pause - self.beat.period().min(pause));
                }
            }
        }
    }

    async fn once(&self, client: &mut Client, get: &Ask) -> Result<Reading, FetchError> {
        if self.source.extractors.is_empty() {
            let status = client.ask(get, &mut Discard::default()).await?;
            return if status == 200 { Ok(Reading::COMPLETE) } else { Err(FetchError::Status(status.as_u16())) };
        }
        let mut page = self.shared.pages.take();
        let status = client.ask(get, &mut page).await?;
        if status != 200 {
            return Err(FetchError::Status(status.as_u16()));
        }
        Ok(self.read(&page))
    }

    fn read(&self, page: &Fetched) -> Reading {
        let Self { endpoint, source, shared, .. } = self;
        let (now, of_load) = (shared.clock.now(), source.is_of_load());
        // One that is fetched more rarely than the others is as new as it can be for longer.
        let until = now.plus(self.beat.period().saturating_sub(shared.base_interval));
        let mut usable = false;
        let mut missing = Missing::default();
        for extractor in &source.extractors {
            // A page that trips an extractor must not end the scraping of its endpoint.
            let extract = AssertUnwindSafe(|| extractor.extract(&endpoint.meta, page.bytes()));
            let Ok(extracted) = catch_unwind(extract) else {
                tracing::error!(endpoint = %endpoint.name(), extractor = extractor.type_name(), "extractor panicked");
                self.count(&**extractor);
                continue;
            };
            if extracted.errors > 0 {
                self.count(&**extractor);
            }
            missing.waiting |= extracted.missing.waiting;
            missing.running |= extracted.missing.running;
            missing.kv_usage |= extracted.missing.kv_usage;
            usable |= if of_load {
                endpoint.engine.apply(now, &extracted.scraped)
            } else {
                endpoint.engine.note(until, &extracted.scraped.attributes)
            };
            if let Some(engine) = extracted.engine.filter(|e| endpoint.engine.engine().as_deref() != Some(&**e)) {
                endpoint.engine.set_engine(engine);
            }
            if extractor.reads() == Page::Models {
                usable |= extracted.models.is_some();
                endpoint.engine.set_models(extracted.models);
            }
        }
        // What one extractor misses another one may have found.
        let (view, now) = (endpoint.engine.view(), Nanos(now.0.max(1)));
        missing.waiting &= view.waiting_at != now;
        missing.running &= view.running_at != now;
        missing.kv_usage &= view.kv_usage_at != now;
        let reading = Reading { usable, missing };
        if usable && of_load {
            self.probe.scraped(endpoint, &*shared.clock);
        }
        if let Some(problem) = reading.problem() {
            self.note(&problem);
        }
        reading
    }

    fn tell(&self, reading: Reading) {
        let (endpoint, source) = (self.endpoint.name(), &self.source.path);
        match reading.problem() {
            Some(problem) => {
                let engine = self.endpoint.engine.engine();
                let read_as = engine.as_deref().unwrap_or_default();
                tracing::warn!(%endpoint, path = %source, read_as, problem = &*problem, "a page lacks something");
            }
            None => tracing::info!(%endpoint, path = %source, "the page is complete"),
        }
    }

    fn count(&self, extractor: &dyn Extractor) {
        self.shared.counters.extract_error(self.source.type_name, extractor.type_name());
    }

    fn failed(&self, error: &FetchError, news: bool) {
        self.shared.stats.failed_scrapes.fetch_add(1, Ordering::Relaxed);
        self.shared.counters.poll_error(self.source.type_name);
        let error = error.to_string();
        if news {
            tracing::warn!(endpoint = %self.endpoint.name(), path = self.source.path, error, "a page cannot be fetched");
        }
        self.note(&error);
    }

    /// Kept until the next page that has everything; not stored again while it stays the same. What is wrong with a page that is not of its load is not
    /// held against an endpoint.
    fn note(&self, error: &str) {
        if self.source.is_of_load() && self.endpoint.engine.last_error().as_deref() != Some(error) {
            self.endpoint.engine.fail(error);
        }
    }
}
