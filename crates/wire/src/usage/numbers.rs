//! Putting together what a response says about usage, event by event.

use super::Usage;
use super::scan::{Counts, UsageScan};
use crate::body::Api;

/// Usage found so far. Of every field the newest figure that is not zero counts, because events repeat some and leave others out.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) api: Api,
    any: bool,
    prompt: u64,
    completion: u64,
    total: u64,
    cached: Option<u64>,
}

impl Found {
    pub(super) fn new(api: Api) -> Self {
        Self { api, any: false, prompt: 0, completion: 0, total: 0, cached: None }
    }

    /// Takes what one JSON response says.
    pub(super) fn document(&mut self, scan: &UsageScan) {
        if let Some(counts) = &scan.top {
            self.add(counts);
        }
    }

    /// Takes what one event says.
    pub(super) fn event(&mut self, scan: &UsageScan) {
        let kind = scan.kind();
        // SGLang's events before the end say only what is known so far.
        if let Some(counts) = &scan.top
            && (self.api != Api::SglangGenerate || scan.finished)
        {
            self.add(counts);
        }
        // Events before the end repeat the request and say nothing of usage, or only what is known so far.
        if let Some(counts) = &scan.response
            && matches!(kind, b"response.completed" | b"response.incomplete" | b"response.failed")
        {
            self.add(counts);
        }
        if let Some(counts) = &scan.message
            && kind == b"message_start"
        {
            self.add(counts);
        }
    }

    pub(super) fn add(&mut self, counts: &Counts) {
        self.any = true;
        let newest = |known: &mut u64, new: Option<u64>| {
            if let Some(n) = new.filter(|&n| n > 0) {
                *known = n;
            }
        };
        newest(&mut self.prompt, counts.prompt.or(counts.input));
        newest(&mut self.completion, counts.completion.or(counts.output));
        // Three figures of one block belong together; else the sum is what is known.
        let (prompt, completion) = (counts.prompt.or(counts.input), counts.completion.or(counts.output));
        self.total = match (prompt, completion, counts.total) {
            (Some(1..), Some(1..), Some(total @ 1..)) => total,
            _ => self.prompt.saturating_add(self.completion),
        };
        let cached = if self.api == Api::Messages { counts.cache_read } else { counts.cached };
        if let Some(n) = cached
            && (n > 0 || self.cached.is_none())
        {
            self.cached = Some(n);
        }
    }

    pub(super) fn usage(&self) -> Option<Usage> {
        self.any.then_some(Usage {
            prompt: self.prompt,
            completion: self.completion,
            total: self.total,
            cached: self.cached,
        })
    }
}
