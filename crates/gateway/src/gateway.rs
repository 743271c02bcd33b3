//! The gateway: what all its connections share, and the way of one request.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use pointsman_core::Clock;
use pointsman_router::Pool;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::answer::{self, Body};
use crate::ejection::Ejector;
use crate::forward::Outgoing;
use crate::metrics::GatewayMetrics;
use crate::read::{self, Stop};
use crate::tls::{self, EngineTrust};
use crate::upstream::{Connector, Links};
use crate::{GatewayError, GatewayOptions};

/// Header lines that a request may have. Over HTTP/1 hyper holds to the same number by itself, without a body in its 431; a limit of our own there would
/// cost an allocation for each request.
const MAX_HEADERS: usize = 100;

/// A gateway in front of one pool. Several listeners may be served by one; two gateways in front of one pool would register their metrics twice.
#[derive(Clone, Debug)]
pub struct Gateway {
    pub(crate) shared: Arc<Shared>,
}

/// What every connection and every request may look at.
pub(crate) struct Shared {
    pub(crate) pool: Arc<Pool>,
    pub(crate) options: GatewayOptions,
    pub(crate) metrics: GatewayMetrics,
    pub(crate) links: Arc<Links>,
    pub(crate) connector: Connector,
    pub(crate) ejector: Arc<Ejector>,
    pub(crate) acceptor: Option<TlsAcceptor>,
    /// One for each connection that may be open.
    pub(crate) slots: Arc<Semaphore>,
    draining: AtomicBool,
    cut: AtomicBool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Shared {
    /// Whether shutdown has begun.
    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Shutdown begins: not ready any more.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether what is dropped now is dropped because the process stops.
    pub(crate) fn cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// The time to finish is over.
    pub(crate) fn cut_now(&self) {
        self.cut.store(true, Ordering::Relaxed);
    }
}

impl Gateway {
    /// Prepares a gateway: reads the PEM files, registers the metrics, watches the pool's fleet.
    ///
    /// # Errors
    /// When a PEM file is not what the options say it is.
    pub fn new(pool: Arc<Pool>, options: GatewayOptions) -> Result<Self, GatewayError> {
        let acceptor = match &options.tls {
            Some(files) => Some(TlsAcceptor::from(Arc::new(tls::server_config(files)?))),
            None => None,
        };
        let trust = EngineTrust::new(options.engine_ca.as_ref(), options.engine_insecure)?;
        let metrics = GatewayMetrics::registered(&pool);
        let clock: Arc<dyn Clock> = Arc::clone(&pool.clock);
        let shared = Shared {
            links: Links::new(&pool.fleet, options.engine_keep_alive_timeout),
            connector: Connector::new(options.connect_timeout, trust),
            ejector: Arc::new(Ejector::new(Arc::clone(&pool.fleet), clock, options.ejection, metrics.clone())),
            acceptor,
            slots: Arc::new(Semaphore::new(options.max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            draining: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            metrics,
            pool,
            options,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

/// Answers one request. An error closes the connection without an answer: there is nobody to read one.
pub(crate) async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let received = shared.pool.clock.now();
    let (mut parts, body) = request.into_parts();
    if parts.headers.len() > MAX_HEADERS {
        return Ok(read::refuse_headers(&shared, &parts, body));
    }
    if let Some(response) = own(&shared, &parts).await {
        return Ok(response);
    }
    // It came on a connection that was open already; where new connections go, somebody else will answer.
    if shared.draining() {
        return Ok(read::refuse_late(&shared, &parts, body));
    }
    read::ensure_request_id(&mut parts.headers);
    let mut reading = shared.pool.begin(read::head(&parts, received));
    let held = match read::body(&shared, &parts, body, &mut reading).await {
        Ok(held) => held,
        Err(Stop::Answer(response)) => return Ok(*response),
        Err(Stop::Broken(error)) => return Err(error),
    };
    while let Some(wait) = reading.prepare() {
        let prepared = wait.await;
        reading.resume(prepared);
    }
    // Boxed: a future is copied whole when it is handed over, for every request.
    match reading.decide().map(Box::new) {
        Ok(routed) => {
            let tells_length = read::tells_length(&parts, routed.body_len());
            let mut outgoing = Outgoing::new(parts, tells_length);
            if let Some(trace) = routed.trace_headers() {
                outgoing.carry(trace);
            }
            Ok(shared.forward(routed, outgoing, held).await)
        }
        Err(refused) => {
            let id = shared.options.decision_headers.then(|| refused.decision.id.to_string());
            Ok(answer::refused(&refused.refusal, id))
        }
    }
}

/// Answers what is not routed.
async fn own(shared: &Arc<Shared>, parts: &http::request::Parts) -> Option<Response<Body>> {
    if parts.method == Method::CONNECT {
        return Some(answer::error(StatusCode::METHOD_NOT_ALLOWED, "this is not a forward proxy"));
    }
    let reads = parts.method == Method::GET || parts.method == Method::HEAD;
    match parts.uri.path() {
        "/healthz" if reads => Some(answer::whole(StatusCode::OK, "text/plain", "ok\n")),
        "/readyz" if reads => Some(ready(shared)),
        "/v1/models" if parts.method == Method::GET => {
            Some(Box::pin(crate::models::merged(shared, &parts.headers)).await)
        }
        _ => None,
    }
}

fn ready(shared: &Shared) -> Response<Body> {
    let (ready, all) = {
        let fleet = shared.pool.fleet.load();
        (fleet.ready(), fleet.endpoints.len())
    };
    if shared.draining() {
        answer::whole(StatusCode::SERVICE_UNAVAILABLE, "text/plain", "shutting down\n")
    } else if ready == 0 {
        answer::whole(StatusCode::SERVICE_UNAVAILABLE, "text/plain", format!("0 of {all} endpoints ready\n"))
    } else {
        answer::whole(StatusCode::OK, "text/plain", format!("{ready} of {all} endpoints ready\n"))
    }
}
