//! Pages of endpoints: where they come from, what reads them, and the loop that fetches one page again and again.

mod complaint;
mod configured;
mod task;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use pointsman_plugins::data_layer::extractor::{Extracted, Extractor, Missing};
use pointsman_plugins::data_layer::source::Page;

use crate::http::{PageAt, TlsClient};
pub(crate) use task::ScrapeTask;

/// A kind of page that every endpoint has.
#[derive(Clone)]
pub struct ScrapeSource {
    /// The configuration type, for counters and logs.
    pub type_name: &'static str,
    /// What is on it.
    pub page: Page,
    /// Where it is.
    pub at: PageAt,
    /// How servers are verified.
    pub tls: TlsClient,
    /// Path of the page, beginning with `/`.
    pub path: String,
    /// Time between two fetches of one page; `None`: the base interval.
    pub interval: Option<Duration>,
    /// What reads the page. With none, pages are fetched and dropped.
    pub extractors: Vec<Arc<dyn Extractor>>,
}

impl ScrapeSource {
    /// Whether the page is what an endpoint says of its own load. Another one is watched as well, but is no news of the endpoint.
    pub(crate) fn is_of_load(&self) -> bool {
        self.page == Page::Metrics && (self.extractors.is_empty() || self.extractors.iter().any(|e| e.is_of_load()))
    }

    /// Whether it tells which models an engine has.
    pub(crate) fn lists_models(&self) -> bool {
        self.page == Page::Models && !self.extractors.is_empty()
    }
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
    /// A page was fetched, and something required could not be read from it.
    fn extract_error(&self, source_type: &str, extractor_type: &str);
}

/// Counts nothing.
impl Counters for () {
    fn poll_error(&self, _: &str) {}
    fn extract_error(&self, _: &str, _: &str) {}
}
