//! One call: what is told of its messages, and the HTTP body that drives it.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use http_body::{Body as HttpBody, Frame};
use hyper::body::Incoming;

use crate::{Code, Frames, Listed, Message, Rope, Status, Writer};

/// Bytes gathered before they are handed on, while more messages are at hand.
const GATHER: usize = 64 << 10;

/// One call on the server's side. Dropped unfinished, the caller has left.
pub trait Call: Send + Unpin + 'static {
    /// A message came.
    fn message(&mut self, message: Message, out: &mut Out);

    /// The caller will send no more.
    fn half_closed(&mut self, out: &mut Out);

    /// Asked whenever nothing came; registers the task for what else it waits for.
    fn poll(&mut self, _cx: &mut Context<'_>, _out: &mut Out) {}

    /// The call ends for this reason, which is not its own choice. What it sends now still goes out, and if it ends itself, that counts.
    fn ended(&mut self, _status: &Status, _out: &mut Out) {}
}

/// Bytes that are rather copied behind what was written than sent as a piece of their own: HTTP/2 copies so few in any case.
const SMALL: usize = 512;

/// Room for what is written: a header answer, or a few events of a stream.
const ROOM: usize = 1024;

/// What a call sends.
#[derive(Debug)]
pub struct Out {
    rope: Rope,
    /// Written and not in the rope yet. Its room is used again once what was in it has left.
    writer: Writer,
    end: Option<Status>,
}

impl Default for Out {
    fn default() -> Self {
        Self { rope: Rope::default(), writer: Writer::with_capacity(ROOM), end: None }
    }
}

impl Out {
    /// Writes what is sent next: frames, heads included ([`Writer::frame`]).
    pub fn write(&mut self, write: impl FnOnce(&mut Writer)) {
        write(&mut self.writer);
    }

    /// Sends bytes behind what was written, by reference unless they are few.
    pub fn send(&mut self, bytes: Bytes) {
        if bytes.len() <= SMALL {
            self.writer.raw_bytes(&bytes);
        } else {
            self.flush();
            self.rope.push(bytes);
        }
    }

    fn flush(&mut self) {
        if !self.writer.written().is_empty() {
            self.rope.push(self.writer.split());
        }
    }

    fn len(&self) -> usize {
        self.rope.len() + self.writer.written().len()
    }

    /// Ends the call once everything sent is out. The first end counts.
    pub fn end(&mut self, status: Status) {
        self.end.get_or_insert(status);
    }

    /// Whether the call ends.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.end.is_some()
    }

    /// How it ends, if it does.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        self.end.as_ref()
    }

    /// Takes what is to be sent. For whoever drives a call without a network.
    #[must_use]
    pub fn take(&mut self) -> Rope {
        self.flush();
        std::mem::take(&mut self.rope)
    }
}

/// The body of a response to a call.
#[derive(Debug)]
pub struct Body(Inner);

#[derive(Debug)]
enum Inner {
    /// The head said it all.
    Empty,
    Stream(Pin<Box<dyn Streaming>>),
}

trait Streaming: HttpBody<Data = Rope, Error = Infallible> + Send + std::fmt::Debug {}

impl<C: Call> Streaming for Stream<C> {}

/// The body that drives a call.
pub struct Stream<C> {
    call: C,
    incoming: Incoming,
    frames: Frames,
    out: Out,
    listed: Listed,
    /// Whether the caller may still send.
    open: bool,
    /// Whether the trailers are out.
    done: bool,
}

impl<C> std::fmt::Debug for Stream<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("open", &self.open).field("done", &self.done).finish_non_exhaustive()
    }
}

impl<C: Call> Stream<C> {
    /// The response that runs `call` over the messages of `incoming`.
    pub fn response(call: C, incoming: Incoming, frames: Frames, listed: Listed) -> Response<Body> {
        let stream = Self { call, incoming, frames, out: Out::default(), listed, open: true, done: false };
        let mut response = Response::new(Body(Inner::Stream(Box::pin(stream))));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        response
    }

    fn cut_short(&mut self, status: Status) {
        if !self.out.is_ended() {
            self.call.ended(&status, &mut self.out);
            self.out.end(status);
        }
    }

    /// Takes what is at hand and lets the call answer, until there is something to send, or nothing at hand.
    fn advance(&mut self, cx: &mut Context<'_>) {
        while !self.out.is_ended() && self.out.len() < GATHER {
            match self.frames.take() {
                Ok(Some(message)) => {
                    self.call.message(message, &mut self.out);
                    continue;
                }
                Ok(None) => {}
                Err(status) => return self.cut_short(status),
            }
            if !self.open {
                return self.call.poll(cx, &mut self.out);
            }
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.frames.push(data);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.open = false;
                    let message = format!("cannot receive stream request: {error}");
                    self.cut_short(Status::new(Code::Unknown, message));
                }
                Poll::Ready(None) => {
                    self.open = false;
                    if self.frames.within() {
                        self.cut_short(Status::new(Code::Internal, "the stream ended within a message"));
                    } else {
                        self.call.half_closed(&mut self.out);
                    }
                }
                Poll::Pending => return self.call.poll(cx, &mut self.out),
            }
        }
    }
}

impl<C: Call> HttpBody for Stream<C> {
    type Data = Rope;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Rope>, Infallible>>> {
        // Nothing in it is pinned: `Incoming` is not, and a call never is.
        let this = self.get_mut();
        if this.done {
            return Poll::Ready(None);
        }
        this.listed.wake_by(cx.waker());
        if this.listed.is_cut() {
            this.cut_short(Status::new(Code::Unavailable, "the endpoint picker is stopping"));
        } else {
            this.advance(cx);
        }
        if this.out.len() > 0 {
            return Poll::Ready(Some(Ok(Frame::data(this.out.take()))));
        }
        match &this.out.end {
            Some(status) => {
                this.done = true;
                Poll::Ready(Some(Ok(Frame::trailers(status.trailers()))))
            }
            None => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.done
    }
}

impl HttpBody for Body {
    type Data = Rope;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Rope>, Infallible>>> {
        match &mut self.0 {
            Inner::Empty => Poll::Ready(None),
            Inner::Stream(stream) => stream.as_mut().poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Inner::Empty => true,
            Inner::Stream(stream) => stream.is_end_stream(),
        }
    }
}

/// A response that is an error and nothing else.
#[must_use]
pub fn refuse(status: &Status) -> Response<Body> {
    let mut response = Response::new(Body(Inner::Empty));
    *response.status_mut() = StatusCode::OK;
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.extend(status.trailers());
    response
}
