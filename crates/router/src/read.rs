//! Step `read`: the body is scanned and hashed while it arrives, and kept as it came.

use crate::decide::{self, Refused};
use crate::head::RequestHead;
use crate::pieces::Pieces;
use crate::pool::{Active, Pool};
use crate::prepare::{Ahead, Known};
use crate::routed::Routed;
use crate::trace::Trace;
use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use pointsman_core::{ErrorCode, Refusal};
use pointsman_plugins::parsers::Reading as PathReading;
use pointsman_plugins::producers::token_producer::video_hints;
use pointsman_wire::body::{Api, BodyReader, ParsedBody, ReadOptions};
use std::borrow::Cow;
use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

/// Most bytes that a compressed request is inflated to for looking into it.
const MAX_INFLATED: usize = 32 << 20;
/// Bytes of a prompt that are kept where prompts are to be shown.
const SHOWN: usize = 4 << 10;

/// A request whose body is arriving.
pub struct Reading {
    pub(crate) pool: Arc<Pool>,
    pub(crate) active: Arc<Active>,
    pub(crate) head: RequestHead,
    pub(crate) trace: Option<Trace>,
    pub(crate) path: Option<PathReading>,
    pub(crate) block_tokens: u32,
    reader: Option<Box<BodyReader>>,
    coding: Coding,
    pub(crate) chunks: Vec<Bytes>,
    pieces: Pieces,
    pub(crate) bytes: u64,
    /// There is no body to look into, whatever the path.
    headers_only: bool,
    /// There is one all the same, which the router does not get to see.
    unseen: bool,
    /// What was waited for, in a configuration with which there is anything.
    pub(crate) ahead: Option<Box<Ahead>>,
}

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Plain,
    Gzip,
    /// One that is not looked into: its body passes, and is scheduled by load.
    Other,
}

impl Coding {
    fn of(head: &RequestHead) -> Self {
        match head.header("content-encoding").unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Self::Plain,
            "gzip" | "x-gzip" => Self::Gzip,
            _ => Self::Other,
        }
    }
}

impl Reading {
    pub(crate) fn new(pool: Arc<Pool>, head: RequestHead) -> Self {
        let active = pool.active();
        let compiled = &active.compiled;
        let path = compiled.parsers.reading(&head.path);
        let blocks = compiled.blocks();
        let api = path.map_or(Api::Raw, |p| p.api);
        let coding = Coding::of(&head);
        // Hints of headers are for chats.
        let estimate = match api {
            Api::Chat | Api::VertexChat => video_hints(&head.headers, compiled.estimate.clone()),
            _ => compiled.estimate.clone(),
        };
        let keep = if pool.show_prompts { SHOWN } else { 0 };
        let reader = (api.is_read() && coding != Coding::Other).then(|| {
            Box::new(BodyReader::new(
                api,
                ReadOptions { block_tokens: blocks.tokens as usize, max_blocks: blocks.most, estimate, keep },
            ))
        });
        let trace = pool.tracer.as_ref().map(|tracer| Trace::begin(tracer, &head, &pool.clock));
        Self {
            pool,
            active,
            head,
            trace,
            path,
            block_tokens: blocks.tokens,
            reader,
            coding,
            chunks: Vec::new(),
            pieces: Pieces::default(),
            bytes: 0,
            headers_only: false,
            unseen: false,
            ahead: None,
        }
    }

    /// The next piece of the body.
    pub fn push(&mut self, chunk: Bytes) {
        self.take(chunk, true);
    }

    /// The next piece of a body that may come in crumbs, which are joined. `last`: nothing follows. Returns the bytes that keeping it costs beside
    /// its own.
    pub fn take(&mut self, chunk: Bytes, last: bool) -> usize {
        self.bytes += chunk.len() as u64;
        // A compressed body is inflated when it is complete: what it grows to is then held for the moment of the decision only.
        if let Some(reader) = self.reader.as_mut().filter(|_| self.coding == Coding::Plain && !chunk.is_empty()) {
            reader.push(&chunk);
        }
        let chunks = &mut self.chunks;
        self.pieces.push(chunk, last, |piece| chunks.push(piece))
    }

    /// Only these endpoints may serve it (`ip:port` or `ip`).
    pub fn restrict_to(&mut self, subset: Option<Vec<String>>) {
        self.head.subset = subset;
    }

    /// There is no body, or none that can be looked into before the request must go: what came of one is forgotten, and the request is scheduled by
    /// what the fleet is like. `unseen`: there is a body.
    pub fn without_body(&mut self, unseen: bool) {
        self.reader = None;
        self.headers_only = true;
        self.unseen = unseen;
    }

    /// The request is understood without bytes to read: what a simulation hands over in the place of a body of `bytes` bytes. Its prompts are cut into
    /// the blocks that the configuration in force [asks for](pointsman_plugins::Compiled::blocks).
    pub fn understood(&mut self, body: ParsedBody, bytes: u64) {
        self.reader = None;
        self.bytes = bytes;
        self.ahead.get_or_insert_default().known = Known::Body(Ok(Some(body)));
    }

    /// Whether the request has a body, seen or not.
    pub(crate) fn has_body(&self) -> bool {
        self.bytes > 0 || self.unseen
    }

    /// The transport cannot go on with it.
    #[must_use]
    pub fn refuse(self, refusal: Refusal) -> Refused {
        decide::refuse_unread(self, refusal)
    }

    /// Bytes of the body so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The body is complete: decides where the request goes.
    ///
    /// # Errors
    /// The refusal for the client, with its record.
    pub fn decide(mut self) -> Result<Routed, Refused> {
        self.complete();
        decide::decide(self)
    }

    /// Nothing of the body follows.
    pub(crate) fn complete(&mut self) {
        let chunks = &mut self.chunks;
        self.pieces.finish(|piece| chunks.push(piece));
    }

    /// Whether the body is kept as it was read.
    pub(crate) fn is_plain(&self) -> bool {
        self.coding == Coding::Plain
    }

    /// What was read. `None`: this path's bodies are not looked into.
    pub(crate) fn parsed(&mut self) -> Result<Option<ParsedBody>, Refusal> {
        let bad = |message: String| Refusal::new(ErrorCode::BadRequest, Cow::Owned(message));
        if self.headers_only {
            return Ok(None);
        }
        match self.path {
            None => return Err(bad(format!("no parser registered matching path suffix for: {}", self.head.path))),
            Some(path) if !path.supported => return Err(bad(format!("unsupported path: {}", self.head.path))),
            Some(_) => {}
        }
        let Some(mut reader) = self.reader.take() else { return Ok(None) };
        if self.bytes == 0 && matches!(&*self.head.method, "GET" | "HEAD" | "DELETE" | "OPTIONS") {
            return Ok(None);
        }
        let parsed = if self.coding == Coding::Gzip {
            let inflated = inflate(&self.chunks)?;
            reader.push(&inflated);
            reader.finish(&[inflated])
        } else {
            reader.finish(&self.chunks)
        };
        parsed.map(Some).map_err(|e| bad(e.to_string()))
    }
}

/// Inflates gzip, of several members if need be.
fn inflate(chunks: &[Bytes]) -> Result<Bytes, Refusal> {
    let mut inflated = Vec::new();
    let mut rest = chunks.iter().map(|c| &c[..]).collect::<VecDeque<&[u8]>>();
    let mut decoder = MultiGzDecoder::new(Compressed(&mut rest)).take(MAX_INFLATED as u64 + 1);
    if let Err(error) = decoder.read_to_end(&mut inflated) {
        let message = format!("error unmarshaling request bodyMap: not valid gzip: {error}");
        return Err(Refusal::new(ErrorCode::BadRequest, message));
    }
    if inflated.len() > MAX_INFLATED {
        let message = format!("the body inflates to more than {} MiB", MAX_INFLATED >> 20);
        return Err(Refusal::new(ErrorCode::PayloadTooLarge, message));
    }
    Ok(inflated.into())
}

/// Reads the pieces of a body one after the other.
struct Compressed<'a, 'b>(&'a mut VecDeque<&'b [u8]>);

impl Read for Compressed<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        while let Some(first) = self.0.front_mut() {
            if first.is_empty() {
                self.0.pop_front();
                continue;
            }
            let n = first.len().min(buf.len());
            buf[..n].copy_from_slice(&first[..n]);
            *first = &first[n..];
            return Ok(n);
        }
        Ok(0)
    }
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading").field("path", &self.head.path).field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
