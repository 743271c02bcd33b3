//! A response that passes by.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use pointsman_router::Routed;
use pointsman_scheduling::Termination;
use tokio::time::{Instant, Sleep};

use crate::answer;
use crate::gateway::Shared;
use crate::renaming::{Passed, Renaming};
use crate::upstream::{Link, Sender};

/// How a break of this response can be told to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// An event stream of the OpenAI APIs: one more record.
    Events,
    /// An event stream of the Messages API.
    MessagesEvents,
    /// Anything else: only by not completing it.
    Opaque,
}

/// An engine's response body on its way to the client. Bytes pass as they are, but for the name of the model where the router rewrites that; the
/// router reads along. However it ends, the router hears of it exactly
/// once: here at the last byte, or in `drop` when the client leaves or the process stops.
pub(crate) struct Passing {
    upstream: Incoming,
    format: Format,
    /// The last bytes that passed, to know whether an event is open.
    tail: [u8; 2],
    begun: bool,
    ended: bool,
    quiet: Quiet,
    /// Present where the router rewrites.
    renaming: Option<Box<Renaming>>,
    /// Present until the end is told.
    routed: Option<Box<Routed>>,
    connection: Option<(Arc<Link>, Sender)>,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Passing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passing").field("format", &self.format).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Passing {
    pub(crate) fn new(
        upstream: Incoming,
        format: Format,
        routed: Box<Routed>,
        connection: (Arc<Link>, Sender),
        shared: Arc<Shared>,
    ) -> Self {
        let renaming = routed.rewrites_response().then(Box::default);
        let quiet = Quiet { limit: shared.options.response_idle_timeout, moved: false, sleep: None };
        Self {
            upstream,
            format,
            tail: *b"\n\n",
            begun: false,
            ended: false,
            quiet,
            renaming,
            routed: Some(routed),
            connection: Some(connection),
            shared,
        }
    }

    fn saw(&mut self, chunk: &[u8]) {
        if let [.., a, b] = chunk {
            self.tail = [*a, *b];
        } else if let [b] = chunk {
            self.tail = [self.tail[1], *b];
        }
        self.begun |= !chunk.is_empty();
        if let Some(routed) = &mut self.routed {
            routed.response_chunk(chunk);
        }
    }

    /// The next frame as the engine sent it, told to the router. `None`, and the words for a break, are told too.
    fn poll_upstream(&mut self, cx: &mut Context<'_>) -> Poll<Option<Passed>> {
        if self.ended {
            return Poll::Ready(None);
        }
        match Pin::new(&mut self.upstream).poll_frame(cx) {
            Poll::Ready(Some(Ok(frame))) => {
                self.quiet.moved = true;
                if let Some(chunk) = frame.data_ref() {
                    self.saw(chunk);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(None) => {
                self.complete();
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(self.broken(&crate::forward::root_cause(&error)))),
            Poll::Pending => {
                let waited = ready!(self.quiet.poll(cx));
                Poll::Ready(Some(self.broken(&format!("nothing came for {} s", waited.as_secs()))))
            }
        }
    }

    /// The next frame with the model's name rewritten. What is held back goes out before whatever ends the body.
    fn poll_renamed(&mut self, cx: &mut Context<'_>) -> Poll<Option<Passed>> {
        loop {
            if let Some(passed) = self.renaming.as_mut().and_then(|renaming| renaming.next()) {
                return Poll::Ready(Some(passed));
            }
            let Some(passed) = ready!(self.poll_upstream(cx)) else {
                return Poll::Ready(self.renaming.as_mut().and_then(|renaming| renaming.next()));
            };
            match passed.map(Frame::into_data) {
                Ok(Ok(chunk)) => self.rename(chunk, false),
                Ok(Err(trailers)) => {
                    self.rename(Bytes::new(), true);
                    self.then(Ok(trailers));
                }
                Err(error) => self.then(Err(error)),
            }
            if self.upstream.is_end_stream() {
                self.complete();
            }
        }
    }

    /// Rewrites the model's name in the next chunk, as long as the router is there; what is told after that is told as it is.
    fn rename(&mut self, chunk: Bytes, end: bool) {
        match (&mut self.renaming, &mut self.routed) {
            (Some(renaming), Some(routed)) => renaming.chunk(routed, chunk, end),
            _ if chunk.is_empty() => {}
            _ => self.then(Ok(Frame::data(chunk))),
        }
    }

    fn then(&mut self, passed: Passed) {
        if let Some(renaming) = &mut self.renaming {
            renaming.then(passed);
        }
    }

    fn complete(&mut self) {
        self.rename(Bytes::new(), true);
        self.ended = true;
        if let Some(routed) = self.routed.take() {
            routed.finish(Termination::Natural, None);
        }
        if let Some((link, sender)) = self.connection.take() {
            link.give_back(sender);
        }
    }

    /// The engine broke off. Gives the words for the client, where there can be any.
    fn broken(&mut self, error: &str) -> Passed {
        self.rename(Bytes::new(), true);
        self.ended = true;
        self.connection = None;
        self.shared.metrics.broken_streams.inc();
        let message = match self.routed.take() {
            Some(routed) => {
                let when = if self.begun { "after the response had begun" } else { "before the response's first byte" };
                let message = format!("engine {} failed {when}: {error}", routed.endpoint().name().name);
                routed.finish(Termination::Error, Some(message.clone()));
                message
            }
            None => error.to_owned(),
        };
        match self.format {
            Format::Opaque => Err(message.into()),
            format => {
                // With CRLF two bytes do not tell the end of a line from that of an event; one needless empty line harms nobody.
                let complete = matches!(&self.tail, b"\n\n" | b"\r\r");
                Ok(Frame::data(answer::broken_stream_event(format == Format::MessagesEvents, complete, &message)))
            }
        }
    }
}

impl Body for Passing {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        if this.renaming.is_some() {
            return this.poll_renamed(cx);
        }
        match ready!(this.poll_upstream(cx)) {
            Some(Ok(frame)) => {
                // With a known length nobody asks again after the last byte.
                if this.upstream.is_end_stream() {
                    this.complete();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            other => Poll::Ready(other),
        }
    }

    fn is_end_stream(&self) -> bool {
        let waiting = self.renaming.as_ref().is_some_and(|renaming| !renaming.is_empty());
        !waiting && (self.ended || self.upstream.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        if self.is_end_stream() {
            SizeHint::with_exact(0)
        } else if self.renaming.is_some() {
            // Another name may be of another length.
            SizeHint::default()
        } else {
            self.upstream.size_hint()
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        if self.upstream.is_end_stream() {
            // No body, or nothing left of it: it was never asked for.
            self.complete();
        } else if self.shared.cut()
            && let Some(routed) = self.routed.take()
        {
            routed.finish(Termination::Shutdown, Some("the gateway stopped before the response had ended".into()));
        }
        // Otherwise the client left. Dropping `routed` says so; dropping `upstream` makes the engine stop.
    }
}

/// Notices silence of at least `limit` and at most twice that, without a look at the clock for each chunk.
struct Quiet {
    limit: Duration,
    /// Whether anything came since the timer was set.
    moved: bool,
    /// Set when first waited for.
    sleep: Option<Pin<Box<Sleep>>>,
}

impl Quiet {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Duration> {
        let limit = self.limit;
        let sleep = self.sleep.get_or_insert_with(|| {
            self.moved = false;
            Box::pin(tokio::time::sleep(limit))
        });
        loop {
            ready!(sleep.as_mut().poll(cx));
            if !std::mem::take(&mut self.moved) {
                return Poll::Ready(limit);
            }
            sleep.as_mut().reset(Instant::now() + limit);
        }
    }
}
