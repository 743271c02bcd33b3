//! Extractors: what a page says of its endpoint.

use super::core_metrics_extractor::EngineMappings;
use super::source::Page;
use pointsman_fleet::{EndpointMeta, Scraped};
use std::fmt;
use std::sync::Arc;

/// Reads a page.
pub trait Extractor: fmt::Debug + Send + Sync + 'static {
    /// The configuration type, for counters and logs.
    fn type_name(&self) -> &'static str;

    /// What must be on the page.
    fn reads(&self) -> Page {
        Page::Metrics
    }

    /// Whether the page is what the endpoint says of its own load: one that cannot be fetched, or lacks something, is a fault of the endpoint then.
    fn is_of_load(&self) -> bool {
        false
    }

    /// The names by which engines' metrics are read, where that is what it does.
    fn engines(&self) -> Option<&EngineMappings> {
        None
    }

    /// Keys of the attributes that a page can give.
    fn attributes(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// What the page of an endpoint says. Pages are outside bytes: anything may be in them.
    fn extract(&self, endpoint: &EndpointMeta, page: &[u8]) -> Extracted;
}

/// What was read from one page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extracted {
    /// The values.
    pub scraped: Scraped,
    /// Required families that are missing, and values that cannot be read.
    pub errors: u32,
    /// Which load signals it should have given and did not.
    pub missing: Missing,
    /// Kind of engine the page was read as, where it is an engine's.
    pub engine: Option<Arc<str>>,
    /// The models it lists, where it is a list.
    pub models: Option<Vec<Arc<str>>>,
}

/// Load signals that a page of its engine kind has, and this one lacks or shows as no number. `Display` says it in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// Requests that wait.
    pub waiting: bool,
    /// Requests that run.
    pub running: bool,
    /// Share of KV-cache blocks in use.
    pub kv_usage: bool,
}

impl Missing {
    /// Whether anything is.
    #[must_use]
    pub fn any(self) -> bool {
        self.waiting || self.running || self.kv_usage
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [
            (self.waiting, "no count of waiting requests"),
            (self.running, "no count of running requests"),
            (self.kv_usage, "no KV cache usage"),
        ];
        for (n, (_, name)) in names.into_iter().filter(|(missing, _)| *missing).enumerate() {
            write!(f, "{}{name}", if n == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}
