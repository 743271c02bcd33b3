//! A response that is text: one JSON document, or an event stream.

use super::UsageError;
use super::numbers::Found;
use super::scan::UsageScan;
use super::sse::Lines;
use crate::body::Api;
use crate::json::Tokenizer;

/// Reads the response's bytes as they come.
#[derive(Debug)]
pub(super) enum Plain {
    Events(Lines),
    Json(Box<Document>),
}

impl Plain {
    pub(super) fn new(api: Api, events: bool) -> Self {
        if events { Self::Events(Lines::default()) } else { Self::Json(Box::new(Document::new(api))) }
    }

    pub(super) fn push(&mut self, chunk: &[u8], found: &mut Found) -> Result<(), UsageError> {
        match self {
            Self::Events(lines) => lines.push(chunk, found),
            Self::Json(document) => document.push(chunk),
        }
    }

    pub(super) fn finish(&mut self, found: &mut Found) -> Result<(), UsageError> {
        match self {
            Self::Events(lines) => lines.finish(found),
            Self::Json(document) => document.finish(found),
        }
    }

    /// Events seen.
    pub(super) fn events(&self) -> u64 {
        match self {
            Self::Events(lines) => lines.events(),
            Self::Json(_) => 0,
        }
    }
}

/// One JSON document.
#[derive(Debug)]
pub(super) struct Document {
    tokenizer: Tokenizer,
    scan: UsageScan,
}

impl Document {
    fn new(api: Api) -> Self {
        Self { tokenizer: Tokenizer::new(), scan: UsageScan::new(api) }
    }

    fn push(&mut self, chunk: &[u8]) -> Result<(), UsageError> {
        Ok(self.tokenizer.push(chunk, &mut self.scan)?)
    }

    pub(super) fn finish(&mut self, found: &mut Found) -> Result<(), UsageError> {
        let read = self.tokenizer.finish(&mut self.scan);
        found.document(&self.scan);
        Ok(read?)
    }

    /// Whether nothing of it is missing.
    pub(super) fn is_complete(&self) -> bool {
        self.tokenizer.is_complete()
    }
}
