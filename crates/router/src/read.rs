//! Step `read`: the body is scanned and hashed while it arrives, and kept as it came.

use crate::decide::{self, Refused};
use crate::head::RequestHead;
use crate::pool::{Active, Pool};
use crate::routed::Routed;
use bytes::Bytes;
use flate2::write::GzDecoder;
use pointsman_core::{ErrorCode, Refusal};
use pointsman_plugins::parsers::Reading as PathReading;
use pointsman_wire::body::{Api, BodyReader, ParsedBody, ReadOptions};
use std::borrow::Cow;
use std::io::Write;
use std::sync::Arc;

/// Most bytes that a compressed request is inflated to for looking into it.
const MAX_INFLATED: usize = 64 << 20;

/// A request whose body is arriving.
pub struct Reading {
    pub(crate) pool: Arc<Pool>,
    pub(crate) active: Arc<Active>,
    pub(crate) head: RequestHead,
    pub(crate) path: Option<PathReading>,
    pub(crate) block_tokens: u32,
    reader: Option<Box<BodyReader>>,
    inflate: Option<Box<GzDecoder<Inflated>>>,
    pub(crate) chunks: Vec<Bytes>,
    pub(crate) bytes: u64,
}

/// What a compressed body inflates to, up to a bound.
#[derive(Default)]
struct Inflated {
    bytes: Vec<u8>,
    overflow: bool,
}

impl Write for Inflated {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        if self.bytes.len() + buf.len() > MAX_INFLATED {
            self.overflow = true;
            return Err(std::io::Error::other("too large"));
        }
        self.bytes.extend_from_slice(buf);
        Ok(buf.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Reading {
    pub(crate) fn new(pool: Arc<Pool>, head: RequestHead) -> Self {
        let active = pool.active();
        let compiled = &active.compiled;
        let path = compiled.parsers.reading(&head.path);
        let first = compiled.prefix.first();
        let block_tokens = first.map_or(64, |p| p.state.block_tokens());
        let max_blocks = if compiled.reads_tokens { first.map_or(0, |p| p.max_blocks()) } else { 0 };
        let api = path.map_or(Api::Raw, |p| p.api);
        let reader = api.is_read().then(|| {
            Box::new(BodyReader::new(
                api,
                ReadOptions { block_tokens: block_tokens as usize, max_blocks, ..ReadOptions::default() },
            ))
        });
        let encoding = head.header("content-encoding").unwrap_or_default();
        let inflate = (reader.is_some() && encoding.trim().eq_ignore_ascii_case("gzip"))
            .then(|| Box::new(GzDecoder::new(Inflated::default())));
        Self { pool, active, head, path, block_tokens, reader, inflate, chunks: Vec::new(), bytes: 0 }
    }

    /// The next piece of the body.
    pub fn push(&mut self, chunk: Bytes) {
        if chunk.is_empty() {
            return;
        }
        self.bytes += chunk.len() as u64;
        if let Some(inflate) = &mut self.inflate {
            // A damaged or oversized body is refused when it is complete; the rest of it is not looked into.
            let _ = inflate.write_all(&chunk);
        } else if let Some(reader) = &mut self.reader {
            reader.push(&chunk);
        }
        self.chunks.push(chunk);
    }

    /// The body is complete: decides where the request goes.
    ///
    /// # Errors
    /// The refusal for the client, with its record.
    pub fn decide(self) -> Result<Routed, Refused> {
        decide::decide(self)
    }

    /// What was read. `None`: this path's bodies are not looked into.
    pub(crate) fn parsed(&mut self) -> Result<Option<ParsedBody>, Refusal> {
        let bad = |message: String| Refusal::new(ErrorCode::BadRequest, Cow::Owned(message));
        if self.path.is_none() {
            return Err(bad(format!("no parser registered matching path suffix for: {}", self.head.path)));
        }
        let Some(mut reader) = self.reader.take() else { return Ok(None) };
        if self.bytes == 0 && matches!(&*self.head.method, "GET" | "HEAD" | "DELETE" | "OPTIONS") {
            return Ok(None);
        }
        let parsed = match self.inflate.take() {
            None => reader.finish(&self.chunks),
            Some(mut inflate) => {
                let whole = inflate.try_finish().is_ok();
                let Inflated { bytes, overflow } = std::mem::take(inflate.get_mut());
                if overflow {
                    let message = format!("the body inflates to more than {} MiB", MAX_INFLATED >> 20);
                    return Err(Refusal::new(ErrorCode::PayloadTooLarge, message));
                }
                if !whole {
                    return Err(bad("error unmarshaling request bodyMap: not valid gzip".to_owned()));
                }
                let inflated = Bytes::from(bytes);
                reader.push(&inflated);
                reader.finish(&[inflated])
            }
        };
        parsed.map(Some).map_err(|e| bad(e.to_string()))
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("path", &self.head.path).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
