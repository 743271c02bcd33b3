//! The pool, and what feeds it.

use std::sync::Arc;
use std::time::Duration;

use pointsman_fleet::EndpointMeta;
use pointsman_plugins::{Compiled, LearnedStates};
use pointsman_router::{Pool, PoolOptions};
use pointsman_sources::{
    Counters, Discovery, EndpointsFile, ScrapeSource, Sources, TlsClient, TlsOptions, endpoints_of,
};
use pointsman_trace::Tracer;

use super::flags::Serve;
use crate::failure::{Exit, Failure};

/// A pool without endpoints.
pub(super) fn make(
    options: &Serve,
    compiled: Compiled,
    states: Arc<LearnedStates>,
    tracer: Option<Arc<Tracer>>,
) -> Arc<Pool> {
    let pool = PoolOptions {
        states,
        record_bytes: usize::try_from(options.record_bytes).unwrap_or(usize::MAX),
        record_block_hashes: options.record_block_hashes,
        stale_after: options.metrics_staleness_threshold,
        tracer,
        ..PoolOptions::default()
    };
    Pool::new(pool, compiled)
}

/// Everything about endpoints that can be wrong before anything runs.
pub(super) struct Wiring {
    fixed: Vec<EndpointMeta>,
    file: Option<(EndpointsFile, bool)>,
    scrape: Vec<ScrapeSource>,
    tls: TlsClient,
}

/// What runs. Dropped, it stops.
pub(super) struct Feed {
    _discovery: Discovery,
    _sources: Sources,
}

impl Wiring {
    pub(super) fn prepare(options: &Serve, compiled: &Compiled) -> Result<Self, Failure> {
        let fixed = match &options.endpoints {
            None => Vec::new(),
            Some(list) => endpoints_of(list).map_err(|faults| {
                let all = faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                Failure::usage("--endpoints cannot be used")
                    .why(all)
                    .next("write host:port or https://host:port, separated by commas")
            })?,
        };
        let file = match (&options.endpoints_file, &compiled.discovery) {
            (Some(path), _) => Some((EndpointsFile { path: path.clone(), allow_any_host: true }, true)),
            (None, Some(declared)) => {
                Some((EndpointsFile { path: declared.path.clone(), allow_any_host: false }, declared.watch))
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
        let wanted = TlsOptions {
            insecure_skip_verify: options.gateway.engine_insecure,
            ca: options.gateway.engine_ca.clone(),
            client_cert: None,
        };
        let secure = fixed.iter().any(|e| e.scheme == pointsman_fleet::Scheme::Https);
        let tls = match TlsClient::new(&wanted) {
            Err(pointsman_sources::TlsError::NoRoots) if !secure => TlsClient::trusting_nobody(),
            made => made.map_err(tls_failed)?,
        };
        Ok(Self { fixed, file, scrape, tls })
    }

    /// Whether anybody said which endpoints exist.
    pub(super) fn has_endpoints(&self) -> bool {
        !self.fixed.is_empty() || self.file.is_some()
    }

    /// Fills the fleet and starts asking its endpoints.
    pub(super) fn start(
        self,
        options: &Serve,
        pool: &Arc<Pool>,
        simulated: Vec<EndpointMeta>,
    ) -> Result<Feed, Failure> {
        let (file, watch) = self.file.map_or((None, false), |(file, watch)| (Some(file), watch));
        let fixed = [self.fixed, simulated].concat();
        if let Some(raised) = options.raised() {
            tracing::warn!("{raised}");
        }
        let sources = options.sources_options(self.tls);
        let clock = Arc::clone(&pool.clock);
        let counters = Arc::new(Counted(Arc::clone(pool)));
        let sources = Sources::start(&pool.fleet, self.scrape, sources, clock, counters)
            .map_err(|e| Failure::new("cannot start asking the engines").why(e))?;
        let discovery = Discovery::start(Arc::clone(&pool.fleet), fixed, file, watch).map_err(unusable)?;
        Ok(Feed { _discovery: discovery, _sources: sources })
    }
}

fn unusable(error: pointsman_sources::FileError) -> Failure {
    Failure::new("the endpoints file cannot be used").why(error).exit(Exit::No)
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

/// Waits until every endpoint was looked at, for a banner that tells how things are rather than how they were before anyone looked.
pub(super) async fn first_look(pool: &Pool, at_most: Duration) {
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
    let _ = tokio::time::timeout(at_most, looked).await;
}
