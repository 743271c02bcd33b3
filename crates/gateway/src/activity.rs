//! What a client connection is doing: answering, waiting for a next request, or being fed a head byte by byte.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use crate::answer::Body;

/// Counters that the two ends of a connection's code share.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// Bytes read so far.
    bytes: AtomicU64,
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
}

/// A stream whose reads are counted.
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
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
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
        Pin::new(&mut self.body).poll_frame(cx)
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
    /// A head takes too long: away with it.
    Drop,
}

/// Measures idleness from looks at an [`Activity`].
#[derive(Debug)]
pub(crate) struct IdleWatch {
    head: Duration,
    keep_alive: Duration,
    /// Requests and bytes when it was last seen busy or beginning to be idle.
    mark: (u64, u64),
    idle_since: Instant,
    head_since: Option<Instant>,
}

impl IdleWatch {
    pub(crate) fn new(head: Duration, keep_alive: Duration, now: Instant) -> Self {
        Self { head, keep_alive, mark: (0, 0), idle_since: now, head_since: Some(now) }
    }

    /// How often to look. Limits are kept to within this.
    pub(crate) fn tick(&self) -> Duration {
        (self.head.min(self.keep_alive) / 4).clamp(Duration::from_millis(5), Duration::from_secs(5))
    }

    pub(crate) fn judge(&mut self, activity: &Activity, now: Instant) -> Verdict {
        let requests = activity.requests.load(Ordering::Relaxed);
        let bytes = activity.bytes.load(Ordering::Relaxed);
        if activity.open.load(Ordering::Relaxed) > 0 || requests != self.mark.0 {
            self.mark = (requests, bytes);
            self.idle_since = now;
            self.head_since = None;
            return Verdict::Keep;
        }
        let http2 = activity.http2;
        if bytes != self.mark.1 && self.head_since.is_none() && !http2 {
            self.head_since = Some(now);
        }
        // A new connection owes its first request as if its head had begun; HTTP/2 only the preface.
        if self.head_since.is_some_and(|since| now - since >= self.head) && !http2 {
            Verdict::Drop
        } else if now - self.idle_since >= self.keep_alive {
            Verdict::Close
        } else {
            Verdict::Keep
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Duration = Duration::from_secs(10);
    const KEEP: Duration = Duration::from_secs(60);

    fn after(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_connection_that_sends_no_request_is_dropped() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::default()));
        let mut watch = IdleWatch::new(HEAD, KEEP, start);
        assert_eq!(watch.judge(&activity, after(start, 9)), Verdict::Keep);
        activity.bytes.store(1, Ordering::Relaxed);
        assert_eq!(watch.judge(&activity, after(start, 10)), Verdict::Drop);
    }

    #[test]
    fn a_connection_idle_between_requests_is_closed_gently_and_later_than_a_slow_head_is() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::default()));
        let mut watch = IdleWatch::new(HEAD, KEEP, start);
        activity.bytes.store(100, Ordering::Relaxed);
        drop(Busy::new(&activity));
        assert_eq!(watch.judge(&activity, after(start, 5)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 64)), Verdict::Keep);
        let mut slow = IdleWatch { mark: watch.mark, ..IdleWatch::new(HEAD, KEEP, after(start, 60)) };
        slow.head_since = None;
        assert_eq!(watch.judge(&activity, after(start, 65)), Verdict::Close);
        activity.bytes.store(101, Ordering::Relaxed);
        assert_eq!(slow.judge(&activity, after(start, 70)), Verdict::Keep);
        assert_eq!(slow.judge(&activity, after(start, 80)), Verdict::Drop);
    }

    #[test]
    fn a_long_answer_is_not_idleness() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::default()));
        let mut watch = IdleWatch::new(HEAD, KEEP, start);
        let busy = Busy::new(&activity);
        assert_eq!(watch.judge(&activity, after(start, 1_000)), Verdict::Keep);
        drop(busy);
        assert_eq!(watch.judge(&activity, after(start, 1_059)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 1_060)), Verdict::Close);
    }

    #[test]
    fn http2_peers_may_talk_without_requests() {
        let (start, activity) = (Instant::now(), Arc::new(Activity::new(true)));
        let mut watch = IdleWatch::new(HEAD, KEEP, start);
        activity.bytes.store(500, Ordering::Relaxed);
        assert_eq!(watch.judge(&activity, after(start, 30)), Verdict::Keep);
        assert_eq!(watch.judge(&activity, after(start, 60)), Verdict::Close);
    }
}
