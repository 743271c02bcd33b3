//! Metrics pages: where they come from, what reads them, and the loop that fetches one page again and again.

mod complaint;
mod configured;
mod task;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pointsman_fleet::EndpointMeta;
pub use pointsman_plugins::data_layer::core_metrics_extractor::{Extracted, Missing};

use crate::http::TlsClient;
pub(crate) use task::ScrapeTask;

/// Reads a page.
pub trait Extractor: Send + Sync + 'static {
    /// The configuration type, for counters and logs.
    fn type_name(&self) -> &'static str;
    /// What the page of an endpoint says. Pages are outside bytes: anything may be in them.
    fn extract(&self, endpoint: &EndpointMeta, page: &[u8]) -> Extracted;
}

/// A kind of page that every endpoint has.
#[derive(Clone)]
pub struct ScrapeSource {
    /// The configuration type, for counters and logs.
    pub type_name: &'static str,
    /// Whether over TLS; `None`: as the endpoint itself is reached.
    pub secure: Option<bool>,
    /// How servers are verified.
    pub tls: TlsClient,
    /// Path of the page, beginning with `/`.
    pub path: String,
    /// Port, where it is not the endpoint's own.
    pub port: Option<u16>,
    /// Time between two fetches of one page; `None`: every tick.
    pub interval: Option<Duration>,
    /// What reads the page. With none, pages are fetched and dropped.
    pub extractors: Vec<Arc<dyn Extractor>>,
}

impl fmt::Debug for ScrapeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read_by: Vec<_> = self.extractors.iter().map(|e| e.type_name()).collect();
        f.debug_struct("ScrapeSource").field("path", &self.path).field("read_by", &read_by).finish_non_exhaustive()
    }
}

/// Counts what went wrong, by configuration type.
pub trait Counters: Send + Sync + 'static {
    /// A page could not be fetched.
    fn poll_error(&self, source_type: &str);
    /// A page was fetched and something required could not be read from it.
    fn extract_error(&self, source_type: &str, extractor_type: &str);
}

/// Counts nothing.
impl Counters for () {
    fn poll_error(&self, _: &str) {}
    fn extract_error(&self, _: &str, _: &str) {}
}
