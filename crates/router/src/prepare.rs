//! Step `prepare`: what a request waits for between its last byte and its decision. In most configurations that is nothing.
//!
//! A transport asks [`Reading::prepare`] until there is nothing more to wait for, and hands back what each wait came to:
//!
//! ```ignore
//! while let Some(wait) = reading.prepare() {
//!     let prepared = wait.await;
//!     reading.resume(prepared);
//! }
//! ```
//!
//! First the prompts are rendered, where the configuration says by whom; then plugins may hold the request back, to place several together. A wait holds
//! nothing of the request, so that a client that leaves ends it by the transport dropping both. None of it can fail a request: without a rendered
//! prompt the estimate counts, and without others a request is placed alone.

use crate::read::Reading;
use crate::resolve::{Resolved, locate, resolve};
use bytes::Bytes;
use pointsman_core::{Nanos, Refusal};
use pointsman_plugins::producers::token_producer::render::{self, RenderError, Rendering};
use pointsman_scheduling::{Producer, Scope, Timing};
use pointsman_wire::body::ParsedBody;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Something to wait for.
pub struct Preparing(Pin<Box<dyn Future<Output = Prepared> + Send>>);

/// What a wait came to, for [`Reading::resume`].
pub struct Prepared(Came);

enum Came {
    /// An answer, and when it was asked for.
    Rendered(Result<Bytes, RenderError>, Nanos),
    /// The time that was waited for.
    Time,
}

impl Future for Preparing {
    type Output = Prepared;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Prepared> {
        self.0.as_mut().poll(cx)
    }
}

impl std::fmt::Debug for Preparing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Preparing")
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Prepared")
    }
}

/// How far a request was understood before its decision.
#[derive(Default)]
pub(crate) enum Known {
    /// Not at all.
    #[default]
    Nothing,
    /// Its body was read.
    Body(Result<Option<ParsedBody>, Refusal>),
    /// It is known who asks for what.
    Request(Result<Resolved, (Refusal, Arc<str>)>),
}

/// A plugin that held the request back.
pub(crate) struct Joining {
    /// What it has to say when the wait is over.
    pub(crate) says: Box<dyn Producer>,
    /// Durations of its calls.
    pub(crate) timing: Arc<dyn Timing>,
}

/// What came of the waits.
#[derive(Default)]
pub(crate) struct Ahead {
    pub(crate) known: Known,
    /// What plugins that held the request back have to say.
    pub(crate) joined: Vec<Joining>,
    rendered: bool,
    held: bool,
    /// When the first wait began, and how long all took together.
    since: Option<Nanos>,
    pub(crate) waited: Duration,
}

impl Reading {
    /// The body is complete: what is there to wait for before [`Reading::decide`]? `None`: nothing, or nothing more.
    #[must_use]
    pub fn prepare(&mut self) -> Option<Preparing> {
        let compiled = &self.active.compiled;
        if compiled.render.is_none() && compiled.batchers.is_empty() {
            return None;
        }
        let mut ahead = self.ahead.take().unwrap_or_default();
        let wait = self.render(&mut ahead).or_else(|| self.hold(&mut ahead));
        let now = self.pool.clock.now();
        if let Some(since) = ahead.since.replace(now) {
            ahead.waited += now.since(since);
        }
        self.ahead = Some(ahead);
        wait
    }

    /// Takes what a wait came to.
    pub fn resume(&mut self, prepared: Prepared) {
        let Came::Rendered(answer, asked) = prepared.0 else { return };
        let blocks = self.active.compiled.blocks();
        let rendered = answer.and_then(|answer| render::read(&answer, blocks.tokens as usize, blocks.most));
        self.pool.metrics.rendered(rendered.as_ref().err(), self.pool.clock.now().since(asked));
        let Some(Ahead { known: Known::Body(Ok(Some(parsed))), .. }) = self.ahead.as_deref_mut() else { return };
        if let Ok(rendered) = rendered {
            (parsed.prompts, parsed.features) = (rendered.prompts, rendered.features);
            if let Some(text) = &mut parsed.text {
                text.block_bytes = 0;
            }
            self.block_tokens = blocks.tokens;
        }
    }

    /// Has the prompts rendered, once.
    fn render(&mut self, ahead: &mut Ahead) -> Option<Preparing> {
        if std::mem::replace(&mut ahead.rendered, true) {
            return None;
        }
        self.complete();
        ahead.known = Known::Body(self.parsed());
        let Known::Body(Ok(Some(parsed))) = &ahead.known else { return None };
        let (render, client) = (self.active.compiled.render.as_ref()?, self.pool.render.as_ref()?);
        let call = render.call(parsed, &self.chunks).filter(|_| self.is_plain())?;
        let (rendering, now): (Rendering, Nanos) = (client.post(call), self.pool.clock.now());
        Some(Preparing(Box::pin(async move { Prepared(Came::Rendered(rendering.await, now)) })))
    }

    /// Lets plugins hold the request back, once.
    fn hold(&mut self, ahead: &mut Ahead) -> Option<Preparing> {
        let timer = self.pool.timer.as_ref()?;
        if self.active.compiled.batchers.is_empty() || std::mem::replace(&mut ahead.held, true) {
            return None;
        }
        let Known::Body(body) = std::mem::take(&mut ahead.known) else { return None };
        ahead.known = Known::Request(match body {
            Ok(parsed) => resolve(self, parsed),
            Err(refusal) => Err((refusal, "".into())),
        });
        let Known::Request(Ok(Resolved { request, .. })) = &ahead.known else { return None };
        let (fleet, now) = (self.pool.fleet.snapshot(), self.pool.clock.now());
        let located = locate(&fleet, &self.head, &request.target_model, now, self.pool.stale_after);
        let kept: Vec<u32> = (0..located.candidates.len() as u32).collect();
        let all = Scope { all: &located.candidates, kept: &kept };
        let mut until = None;
        for batcher in &self.active.compiled.batchers {
            if let Some(joined) = batcher.join(request, all, now) {
                until = until.max(Some(joined.until));
                ahead.joined.push(Joining { says: joined.then, timing: Arc::clone(&batcher.timing) });
            }
        }
        let wait = timer.until(until?);
        Some(Preparing(Box::pin(async move {
            wait.await;
            Prepared(Came::Time)
        })))
    }
}
