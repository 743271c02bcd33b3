//! What a client connection is doing: answering, waiting for a next request, or being fed a head byte by byte.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::answer::Body;
use crate::stall::{Told, tell};

/// A write that waits for the client to make room.
const WRITE: u8 = 1;
/// The same of a flush, or of the goodbye.
const FLUSH: u8 = 2;

/// Counters that the two ends of a connection's code share.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Bytes read so far.
    bytes: AtomicU64,
    /// Bytes written so far.
    written: AtomicU64,
    /// Which of [`WRITE`] and [`FLUSH`] wait.
    waiting: AtomicU8,
    /// Requests begun so far.
    requests: AtomicU64,
    /// Requests not answered to the end.
    open: AtomicU32,
    /// Whether the client speaks HTTP/2, whose peers send more than requests.
    http2: bool,
}

impl Activity {
    /// Of a connection that speaks one of the two.
    pub(crate) fn new(http2: bool) -> Self {
        Self { http2, ..Self::default() }
    }

    fn wrote(&self, written: &Poll<io::Result<usize>>) {
        self.waits(WRITE, written.is_pending());
        if let Poll::Ready(Ok(n)) = written {
            self.written.fetch_add(*n as u64, Ordering::Relaxed);
        }
    }

    fn waits(&self, what: u8, waits: bool) {
        let before = self.waiting.load(Ordering::Relaxed);
        let after = if waits { before | what } else { before & !what };
        // One task writes to a connection, and others only look.
        if after != before {
            self.waiting.store(after, Ordering::Relaxed);
        }
    }

    /// The bytes written, while there are some that cannot be.
    fn stuck_at(&self) -> Option<u64> {
        (self.waiting.load(Ordering::Relaxed) != 0).then(|| self.written.load(Ordering::Relaxed))
    }
}

/// A stream whose reads and writes are counted.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    stream: S,
    activity: Arc<Activity>,
}

impl<S> Watched<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>) -> Self {
        Self { stream, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        let new = &buf.filled()[before..];
        if !new.is_empty() {
            self.activity.bytes.fetch_add(new.len() as u64, Ordering::Relaxed);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.activity.wrote(&written);
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.activity.waits(FLUSH, flushed.is_pending());
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.activity.waits(FLUSH, shut.is_pending());
        shut
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.activity.wrote(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// One request being served.
#[derive(Debug)]
pub(crate) struct Busy(Arc<Activity>);

impl Busy {
    pub(crate) fn new(activity: &Arc<Activity>) -> Self {
        activity.requests.fetch_add(1, Ordering::Relaxed);
        activity.open.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(activity))
    }

    /// Keeps the connection busy until the body was sent.
    pub(crate) fn until_sent(self, body: Body) -> Sending {
        Sending { body, _busy: self }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A response body that knows its connection.
#[derive(Debug)]
pub(crate) struct Sending {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Sending {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        tell(if matches!(frame, Poll::Ready(Some(_))) { Told::Gave } else { Told::Asked });
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// What is to be done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Keep,
    /// Idle for too long: close it in good order.
    Close,
    /// It takes too long over its head, over taking what is written to it, or over going: away with it.
    Drop,
}

/// How long a client may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// For its first request, for the head of each further one, and to go when it is asked to.
    pub(crate) head: Duration,
    /// Between requests.
    pub(crate) keep_alive: Duration,
    /// To take anything of what is written to it.
    pub(crate) take: Duration,
}

/// Measures idleness from looks at an [`Activity`].
#[derive(Debug)]
pub(crate) struct IdleWatch {
    patience: Patience,
    /// Requests and bytes when it was last seen busy or beginning to be idle.
    mark: (u64, u64),
    idle_since: Instant,
    head_since: Option<Instant>,
    /// Since when it was only waited for to go.
    closing_since: Option<Instant>,
    /// Since when nothing more than so many bytes could be written.
    stuck: Option<(u64, Instant)>,
}

impl IdleWatch {
    pub(crate) fn new(patience: Patience, now: Instant) -> Self {
        Self { patience, mark: (0, 0), idle_since: now, head_since: Some(now), closing_since: None, stuck: None }
    }

    /// How often to look. Limits are kept to within this.
    pub(crate) fn tick(&self) -> Duration {
        let Patience { head, keep_alive, take } = self.patience;
        (head.min(keep_alive).min(take) / 4).clamp(Duration::from_millis(5), Duration::from_secs(5))
    }

    pub(crate) fn judge(&mut self, activity: &Activity, now: Instant) -> Verdict {
        let Patience { head, keep_alive, take } = self.patience;
        self.stuck = match (activity.stuck_at(), self.stuck) {
            (Some(at), Some((before, since))) if at == before => Some((at, since)),
            (at, _) => at.map(|at| (at, now)),
        };
        if self.stuck.is_some_and(|(_, since)| now - since >= take) {
            return Verdict::Drop;
        }
        let requests = activity.requests.load(Ordering::Relaxed);
        let bytes = activity.bytes.load(Ordering::Relaxed);
        if activity.open.load(Ordering::Relaxed) > 0 || requests != self.mark.0 {
            self.mark = (requests, bytes);
            self.idle_since = now;
            self.head_since = None;
            self.closing_since = self.closing_since.map(|_| now);
            return Verdict::Keep;
        }
        if bytes != self.mark.1 && self.head_since.is_none() && !activity.http2 {
            self.head_since = Some(now);
        }
        // A new connection owes its first request as if its head had begun. One that was asked to go need not listen, or may never have said enough to be
        // understood.
        if [self.head_since, self.closing_since].into_iter().flatten().any(|since| now - since >= head) {
            Verdict::Drop
        } else if now - self.idle_since >= keep_alive {
            self.closing_since.get_or_insert(now);
            Verdict::Close
        } else {
            Verdict::Keep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience =
        Patience { head: Duration::from_secs(10), keep_alive: Duration::from_secs(60), take: Duration::from_secs(600) };

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_connection_that_sends_no_request_is_dropped() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::default()));
        let mut watch = IdleWatch::new(PATIENCE, start);
        assert_eq!(watch.judge(&activity, after(start, 9)), Verdict::Keep);
        activity.bytes.store(1, Ordering::Relaxed);
        assert_eq!(watch.judge(&activity, after(start, 10)), Verdict::Drop);
    }

    #[test]
    fn a_connection_idle_between_requests_is_closed_gently_and_later_than_a_slow_head_is() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::default()));
        let mut watch = IdleWatch::new(PATIENCE, start);
        activity.bytes.store(100, Ordering::Relaxed);
        drop(Busy::new(&activity));
        assert_eq!(watch.judge(&activity, after(start, 5)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 64)), Verdict::Keep);
        let mut slow = IdleWatch { mark: watch.mark, ..IdleWatch::new(PATIENCE, after(start, 60)) };
        slow.head_since = None;
        assert_eq!(watch.judge(&activity, after(start, 65)), Verdict::Close);
        activity.bytes.store(101, Ordering::Relaxed);
        assert_eq!(slow.judge(&activity, after(start, 70)), Verdict::Keep);
        assert_eq!(slow.judge(&activity, after(start, 80)), Verdict::Drop);
    }

    #[test]
    fn a_long_answer_is_not_idleness() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::default()));
        let mut watch = IdleWatch::new(PATIENCE, start);
        let busy = Busy::new(&activity);
        assert_eq!(watch.judge(&activity, after(start, 1_000)), Verdict::Keep);
        drop(busy);
        assert_eq!(watch.judge(&activity, after(start, 1_059)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 1_060)), Verdict::Close);
    }

    #[test]
    fn http2_peers_may_talk_between_requests_but_not_instead_of_a_first_one() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::new(true)));
        let mut watch = IdleWatch::new(PATIENCE, start);
        drop(Busy::new(&activity));
        assert_eq!(watch.judge(&activity, start), Verdict::Keep);
        activity.bytes.store(500, Ordering::Relaxed);
        assert_eq!(watch.judge(&activity, after(start, 30)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 60)), Verdict::Close);

        let activity = Arc::new(Activity::new(true));
        let mut watch = IdleWatch::new(PATIENCE, start);
        activity.bytes.store(500, Ordering::Relaxed);
        assert_eq!(watch.judge(&activity, after(start, 9)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 10)), Verdict::Drop);
    }

    #[test]
    fn a_connection_that_does_not_go_when_asked_to_is_dropped_once_its_last_answer_is_given() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::new(true)));
        let mut watch = IdleWatch::new(PATIENCE, start);
        drop(Busy::new(&activity));
        assert_eq!(watch.judge(&activity, start), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 60)), Verdict::Close);
        assert_ne!(watch.judge(&activity, after(start, 69)), Verdict::Drop);
        // A request that was on its way already.
        let late = Busy::new(&activity);
        assert_eq!(watch.judge(&activity, after(start, 1_000)), Verdict::Keep);
        drop(late);
        assert_eq!(watch.judge(&activity, after(start, 1_009)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 1_010)), Verdict::Drop);
    }

    #[test]
    fn a_client_that_takes_nothing_is_dropped_amid_its_answer_and_a_slow_one_is_not() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::default()));
        let mut watch = IdleWatch::new(PATIENCE, start);
        let _busy = Busy::new(&activity);
        activity.wrote(&Poll::Ready(Ok(1_000)));
        activity.wrote(&Poll::Pending);
        assert_eq!(watch.judge(&activity, start), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 599)), Verdict::Keep);
        // A little went out between two looks.
        activity.wrote(&Poll::Ready(Ok(1)));
        activity.wrote(&Poll::Pending);
        assert_eq!(watch.judge(&activity, after(start, 600)), Verdict::Keep);
        // Nothing is left to write.
        activity.wrote(&Poll::Ready(Ok(1)));
        assert_eq!(watch.judge(&activity, after(start, 1_200)), Verdict::Keep);
        activity.waits(FLUSH, true);
        assert_eq!(watch.judge(&activity, after(start, 1_300)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 1_900)), Verdict::Drop);
    }
}
