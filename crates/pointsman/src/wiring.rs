//! The pool, and what feeds it: the same for every command that routes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pointsman_fleet::EndpointMeta;
use pointsman_plugins::Compiled;
use pointsman_plugins::producers::token_producer::render::RenderClient;
use pointsman_router::{Pool, PoolOptions};
use pointsman_sources::{
    Counters, Discovery, EndpointsFile, Renderers, RuntimeTimer, ScrapeSource, Sources, SourcesOptions, TlsClient,
    TlsOptions, endpoints_of, warm_up,
};
use tokio::signal::unix::{SignalKind, signal};

use crate::decision_log::DecisionLog;
use crate::failure::{Exit, Failure};
use crate::reload::{Origin, Reloader};

/// What was said about endpoints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted<'a> {
    /// Addresses, separated by commas.
    pub(crate) endpoints: Option<&'a str>,
    /// A file of them, which wins over that of the configuration.
    pub(crate) endpoints_file: Option<&'a Path>,
    /// How to trust those that speak TLS.
    pub(crate) tls: TlsOptions,
}

/// Everything about endpoints that can be wrong before anything runs.
pub(crate) struct Wiring {
    fixed: Vec<EndpointMeta>,
    file: Option<(EndpointsFile, bool)>,
    scrape: Vec<ScrapeSource>,
    tls: TlsClient,
}

/// What runs. Dropped, it stops.
pub(crate) struct Feed {
    _discovery: Discovery,
    pub(crate) sources: Arc<Sources>,
}

impl Wiring {
    pub(crate) fn prepare(wanted: &Wanted<'_>, compiled: &Compiled) -> Result<Self, Failure> {
        let fixed = match wanted.endpoints {
            None => Vec::new(),
            Some(list) => endpoints_of(list).map_err(|faults| {
                let all = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                Failure::usage("--endpoints cannot be used")
                    .why(all)
                    .next("write host:port or https://host:port, separated by commas")
            })?,
        };
        let file = match (wanted.endpoints_file, &compiled.discovery) {
            (Some(path), _) => Some((EndpointsFile { path: path.to_owned(), allow_any_host: true }, true)),
            (None, Some(declared)) => {
                Some((EndpointsFile { path: declared.path.clone(), allow_any_host: declared.any_host }, declared.watch))
            }
            (None, None) => None,
        };
        if let Some((file, _)) = &file {
            file.load().map_err(unusable)?;
        }
        let tls_failed = |e: pointsman_sources::TlsError| Failure::new("TLS towards engines cannot be set up").why(e);
        let scrape = ScrapeSource::compile_all(&compiled.sources).map_err(tls_failed)?;
        // Health and models are asked for over TLS where endpoints are https, which those of a file may become at any time. Without any such the
        // system's authorities need not exist.
        let secure = fixed.iter().any(|e| e.scheme == pointsman_fleet::Scheme::Https);
        let tls = match TlsClient::new(&wanted.tls) {
            Err(pointsman_sources::TlsError::NoRoots) if !secure => TlsClient::trusting_nobody(),
            made => made.map_err(tls_failed)?,
        };
        Ok(Self { fixed, file, scrape, tls })
    }

    /// Whether anybody said which endpoints exist.
    pub(crate) fn has_endpoints(&self) -> bool {
        !self.fixed.is_empty() || self.file.is_some()
    }

    /// Fills the fleet and starts asking its endpoints.
    pub(crate) fn start(
        self,
        options: impl FnOnce(TlsClient) -> SourcesOptions,
        pool: &Arc<Pool>,
        simulated: Vec<EndpointMeta>,
    ) -> Result<Feed, Failure> {
        let (file, watch) = self.file.map_or((None, false), |(file, watch)| (Some(file), watch));
        let fixed = [self.fixed, simulated].concat();
        let sources = options(self.tls);
        let clock = Arc::clone(&pool.clock);
        let counters = Arc::new(Counted(Arc::clone(pool)));
        let sources = Sources::start(&pool.fleet, self.scrape, sources, clock, counters)
            .map_err(|e| Failure::new("cannot start asking the engines").why(e))?;
        let discovery = Discovery::start(Arc::clone(&pool.fleet), fixed, file, watch).map_err(unusable)?;
        Ok(Feed { _discovery: discovery, sources: Arc::new(sources) })
    }
}

/// Whoever else holds the sources must not keep them asking.
impl Drop for Feed {
    fn drop(&mut self) {
        self.sources.stop();
    }
}

fn unusable(error: pointsman_sources::FileError) -> Failure {
    Failure::new("the endpoints file cannot be used").why(error).exit(Exit::No)
}

/// With what requests may wait for, on this runtime.
pub(crate) fn with_waits(options: PoolOptions, compiled: &Compiled) -> PoolOptions {
    let timer = RuntimeTimer(Arc::clone(&options.clock));
    let renderers: Arc<dyn RenderClient> = Arc::new(Renderers::new(tokio::runtime::Handle::current()));
    if let Some(render) = &compiled.render {
        tokio::spawn(warm_up(Arc::clone(&renderers), Arc::clone(render)));
    }
    PoolOptions { timer: Some(Arc::new(timer)), render: Some(renderers), ..options }
}

/// Scrape errors on the pool's metrics page.
struct Counted(Arc<Pool>);

impl Counters for Counted {
    fn poll_error(&self, source_type: &str) {
        self.0.metrics.poll_error(source_type);
    }

    fn extract_error(&self, source_type: &str, extractor_type: &str) {
        self.0.metrics.extract_error(source_type, extractor_type);
    }
}

/// How long a start waits for the first look at every endpoint.
const FIRST_LOOK: Duration = Duration::from_millis(1_500);

/// Waits until every endpoint was looked at, so that the first request and the banner meet things as they are rather than as they were before anyone
/// looked.
pub(crate) async fn first_look(pool: &Pool) {
    let looked = async {
        loop {
            let all = pool
                .fleet
                .load()
                .endpoints
                .iter()
                .all(|e| e.ready() || e.engine.last_error().is_some() || e.engine.scraped_at().0 != 0);
            if all {
                // What follows from the first page, such as readiness, is a matter of moments.
                tokio::time::sleep(Duration::from_millis(50)).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let _ = tokio::time::timeout(FIRST_LOOK, looked).await;
}

/// What every process that routes does beside: its finished decisions go to the log, if there is one, plugins get their slow work done, and a SIGHUP
/// opens the log anew and reads the configuration again.
pub(crate) fn keep_house(pool: &Arc<Pool>, feed: &Feed, log: Option<&Arc<DecisionLog>>, origin: Origin) {
    let reloader = Reloader::start(pool, &feed.sources, origin);
    if let Some(log) = log {
        pool.metrics.register(|registry| log.counts().register(registry));
        let log = Arc::clone(log);
        pool.on_finished(Box::new(move |decision| log.take(decision)));
    }
    tokio::spawn(housekeeping(Arc::clone(pool)));
    tokio::spawn(hang_ups(log.cloned(), reloader));
}

async fn housekeeping(pool: Arc<Pool>) {
    let mut beat = tokio::time::interval(Duration::from_secs(1));
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        beat.tick().await;
        pool.housekeeping();
    }
}

/// SIGHUP: whoever rotates logs has moved the file away, or somebody has changed the configuration. The process must not end by it.
async fn hang_ups(log: Option<Arc<DecisionLog>>, reloader: Reloader) {
    let Ok(mut hang_up) = signal(SignalKind::hangup()) else { return };
    while hang_up.recv().await.is_some() {
        if let Some(log) = &log {
            log.reopen();
        }
        reloader.again().await;
    }
}
