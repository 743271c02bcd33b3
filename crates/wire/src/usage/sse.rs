//! Server-sent events, line by line over chunks of any size.

use super::numbers::Found;
use super::scan::UsageScan;
use super::{MAX_LINE, UsageError};
use crate::body::Api;
use crate::json::Tokenizer;
use memchr::{memchr, memmem};

/// The lines of an event stream.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Beginning of a line whose end has not come.
    carry: Vec<u8>,
    /// The line under way is too long to keep; the rest of it goes by.
    skipping: bool,
    events: u64,
    scan: Option<Box<UsageScan>>,
}

impl Lines {
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn push(&mut self, mut chunk: &[u8], found: &mut Found) -> Result<(), UsageError> {
        let mut read = Ok(());
        while let Some(end) = memchr(b'\n', chunk) {
            let line = if self.carry.is_empty() && !self.skipping {
                self.line(&chunk[..end], found)
            } else {
                self.keep(&chunk[..end]).and(self.end_carried(found))
            };
            read = read.and(line);
            chunk = &chunk[end + 1..];
        }
        if !chunk.is_empty() {
            read = read.and(self.keep(chunk));
        }
        read
    }

    /// Ends the stream; a last line without its end is a line.
    pub(super) fn finish(&mut self, found: &mut Found) -> Result<(), UsageError> {
        self.end_carried(found)
    }

    fn keep(&mut self, part: &[u8]) -> Result<(), UsageError> {
        if self.skipping {
            return Ok(());
        }
        if self.carry.len() + part.len() > MAX_LINE {
            // Enough to see what kind of line it is.
            let room = 16usize.saturating_sub(self.carry.len()).min(part.len());
            self.carry.extend_from_slice(&part[..room]);
            let counts = data(&self.carry).is_some();
            self.events += u64::from(counts);
            self.carry.clear();
            self.skipping = true;
            return if counts { Err(UsageError::LongLine) } else { Ok(()) };
        }
        self.carry.extend_from_slice(part);
        Ok(())
    }

    fn end_carried(&mut self, found: &mut Found) -> Result<(), UsageError> {
        if std::mem::take(&mut self.skipping) {
            return Ok(());
        }
        let mut carry = std::mem::take(&mut self.carry);
        let read = self.line(&carry, found);
        carry.clear();
        self.carry = carry;
        read
    }

    fn line(&mut self, line: &[u8], found: &mut Found) -> Result<(), UsageError> {
        let Some(data) = data(line) else { return Ok(()) };
        if data == b"[DONE]" {
            return Ok(());
        }
        self.events += 1;
        if line.len() > MAX_LINE {
            return Err(UsageError::LongLine);
        }
        let key: &[u8] = if found.api == Api::SglangGenerate { b"\"finish_reason\"" } else { b"\"usage\"" };
        if !is_set(data, key) {
            return Ok(());
        }
        let scan = self.scan.get_or_insert_with(|| Box::new(UsageScan::new(found.api)));
        scan.reset();
        let mut tokenizer = Tokenizer::new();
        tokenizer.push(data, &mut **scan).and_then(|()| tokenizer.finish(&mut **scan))?;
        found.event(scan);
        Ok(())
    }
}

/// What stands behind `data:`, one blank before and a carriage return after it left out.
fn data(line: &[u8]) -> Option<&[u8]> {
    let data = line.strip_prefix(b"data:")?;
    let data = data.strip_prefix(b" ").unwrap_or(data);
    Some(data.strip_suffix(b"\r").unwrap_or(data))
}

/// Whether this key occurs with a value other than null. Text that quotes it has a backslash before the second mark.
fn is_set(mut data: &[u8], key: &[u8]) -> bool {
    while let Some(at) = memmem::find(data, key) {
        data = &data[at + key.len()..];
        if !data.starts_with(b":null") {
            return true;
        }
    }
    false
}
