//! The gRPC service.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Request, Response};
use hyper::body::Incoming;
use pointsman_grpc::health::{self, Health};
use pointsman_grpc::{Body, Code, Frames, Service, Status, Stream, Streams};
use pointsman_router::Pool;
use pointsman_router::metrics::StreamMetrics;

use crate::budget::Budget;
use crate::exchange::Exchange;
use crate::options::ExtProcOptions;
use crate::proto::request::{BodyMode, Modes};

/// Name of the service, which is also a name its health is asked by.
pub const SERVICE: &str = "envoy.service.ext_proc.v3.ExternalProcessor";

/// What all exchanges share.
pub struct Shared {
    pub(crate) pool: Arc<Pool>,
    pub(crate) options: ExtProcOptions,
    pub(crate) budget: Budget,
    pub(crate) streams: Option<StreamMetrics>,
    /// Which pairs of body modes were met, one bit each.
    met: AtomicU64,
    /// Messages that were too large.
    too_large: AtomicU64,
}

impl Shared {
    /// Of exchanges over a pool.
    #[must_use]
    pub fn new(pool: Arc<Pool>, options: ExtProcOptions) -> Arc<Self> {
        let streams = options.stream_metrics.then(|| StreamMetrics::register(&pool.metrics, Arc::clone(&pool.clock)));
        Arc::new(Self {
            pool,
            options,
            budget: Budget::default(),
            streams,
            met: AtomicU64::new(0),
            too_large: AtomicU64::new(0),
        })
    }

    /// Request bytes held now, over all exchanges.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.budget.held()
    }

    /// Says in the log that a message was too large: the first one, and each time their number has doubled.
    pub(crate) fn too_large(&self, status: &str) {
        let count = self.too_large.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(
                count,
                status,
                "the proxy got no answer to a message that is too large (--grpc-max-recv-msg-size); its client gets 500"
            );
        }
    }

    /// Says in the log which body modes a proxy uses, once for each pair.
    pub(crate) fn met(&self, said: Option<Modes>) {
        let modes = said.unwrap_or_default();
        let bit = 1_u64 << (modes.request as u32 * 8 + modes.response as u32);
        if self.met.load(Ordering::Relaxed) & bit != 0 || self.met.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return;
        }
        let (request, response) = (modes.request.as_str(), modes.response.as_str());
        let source = if said.is_some() { "it says so" } else { "assumed, as it does not say" };
        tracing::info!(request_body_mode = request, response_body_mode = response, "a proxy connected ({source})");
        let lost = match modes.request {
            BodyMode::FullDuplex => None,
            BodyMode::Buffered => Some("the proxy refuses bodies beyond its own buffer by itself, with 413"),
            BodyMode::BufferedPartial => Some("long request bodies are routed by load, without a look at the prompt"),
            BodyMode::Streamed | BodyMode::None => {
                Some("requests are routed by load, without a look at model or prompt, and models are not rewritten")
            }
        };
        if let Some(lost) = lost {
            tracing::warn!("request_body_mode {request}: {lost}; set it to FULL_DUPLEX_STREAMED");
        }
        if matches!(modes.response, BodyMode::Buffered | BodyMode::BufferedPartial) {
            tracing::warn!(
                "response_body_mode {response}: clients get no stream, every response is held to its end; set it to FULL_DUPLEX_STREAMED"
            );
        }
        if modes.response == BodyMode::None {
            tracing::warn!(
                "response_body_mode NONE: token usage and the end of responses are not seen; set it to FULL_DUPLEX_STREAMED"
            );
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Ext-proc, with the health service beside it.
pub struct ExtProc {
    /// `None`: health only.
    shared: Option<Arc<Shared>>,
    health: Arc<dyn Health>,
}

impl std::fmt::Debug for ExtProc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ExtProc").field("shared", &self.shared).finish_non_exhaustive()
    }
}

impl ExtProc {
    /// Both services.
    pub fn new(shared: Arc<Shared>, health: Arc<dyn Health>) -> Self {
        Self { shared: Some(shared), health }
    }

    /// Health alone.
    pub fn health_only(health: Arc<dyn Health>) -> Self {
        Self { shared: None, health }
    }
}

impl Service for ExtProc {
    fn call(&self, request: Request<Incoming>, streams: &Streams) -> Response<Body> {
        let (parts, incoming) = request.into_parts();
        let path = parts.uri.path();
        let grpc = parts
            .headers
            .get(http::header::CONTENT_TYPE)
            .is_some_and(|t| t.as_bytes().starts_with(b"application/grpc"));
        if !grpc {
            let mut response = pointsman_grpc::refuse(&Status::new(
                Code::Internal,
                "this is a gRPC server: content-type must be application/grpc",
            ));
            *response.status_mut() = http::StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return response;
        }
        match &self.shared {
            Some(shared) if path == "/envoy.service.ext_proc.v3.ExternalProcessor/Process" => {
                let gzip = parts.headers.get("grpc-encoding").is_some_and(|e| e == "gzip");
                let frames = Frames::new(shared.options.max_message_bytes, gzip);
                Stream::response(Exchange::new(Arc::clone(shared)), incoming, frames, streams.list())
            }
            _ => health::answer(&self.health, path, || incoming, || streams.list()).unwrap_or_else(|| {
                pointsman_grpc::refuse(&Status::new(Code::Unimplemented, format!("unknown method {path}")))
            }),
        }
    }
}
