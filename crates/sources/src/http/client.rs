//! One connection to one address.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;

use crate::http::connect::Stream;
use crate::http::{Connects, FetchError, Peer};

/// Largest read, and the bound on response headers. Held per connection.
const READ_BUFFER: usize = 16 << 10;

/// Takes the body of an answer, piece by piece.
pub(crate) trait Sink: Send {
    /// A new answer begins: forget what came before.
    fn restart(&mut self);
    /// A piece of the body, and the length of the whole where that is known.
    fn piece(&mut self, piece: Bytes, expected: Option<u64>) -> Result<(), FetchError>;
}

/// Drops what comes, up to a bound.
#[derive(Debug, Default)]
pub(crate) struct Discard(usize);

impl Sink for Discard {
    fn restart(&mut self) {
        self.0 = 0;
    }

    fn piece(&mut self, piece: Bytes, _: Option<u64>) -> Result<(), FetchError> {
        self.0 += piece.len();
        if self.0 > crate::page::MAX_PAGE { Err(FetchError::TooLarge(crate::page::MAX_PAGE)) } else { Ok(()) }
    }
}

/// A body that is sent in the pieces it lies in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// A request that can be sent again and again.
#[derive(Clone, Debug)]
pub(crate) struct Ask(Request<Pieces>);

impl Ask {
    /// `GET path` of a peer. A path that is none asks for `/`.
    pub(crate) fn get(peer: &Peer, path: &str, accept: &'static str) -> Self {
        let uri = path.parse().unwrap_or_else(|_| hyper::Uri::from_static("/"));
        let mut request = Request::new(Pieces::default());
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        if let Ok(host) = HeaderValue::from_str(&peer.authority) {
            headers.insert(HOST, host);
        }
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        headers.insert(USER_AGENT, HeaderValue::from_static(concat!("pointsman/", env!("CARGO_PKG_VERSION"))));
        Self(request)
    }

    /// `POST path` of JSON.
    pub(crate) fn post(peer: &Peer, path: &str, body: Vec<Bytes>) -> Self {
        let Self(mut request) = Self::get(peer, path, "application/json");
        *request.method_mut() = Method::POST;
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        *request.body_mut() = Pieces(body.into_iter().filter(|piece| !piece.is_empty()).collect());
        Self(request)
    }
}

type Driver = Pin<Box<http1::Connection<TokioIo<Box<dyn Stream>>, Pieces>>>;

struct Live {
    sender: http1::SendRequest<Pieces>,
    /// Gone when the connection ended.
    driver: Option<Driver>,
}

impl Live {
    /// Waits for `work` while keeping the connection moving.
    async fn drive<F: Future>(driver: &mut Option<Driver>, work: F) -> F::Output {
        let mut work = pin!(work);
        poll_fn(|cx| {
            // First `work`, which asks the connection for more; then the connection; then `work` again for what came.
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            if let Some(connection) = driver
                && connection.as_mut().poll(cx).is_ready()
            {
                *driver = None;
            }
            work.as_mut().poll(cx)
        })
        .await
    }

    async fn open(peer: &Peer, connects: &Connects) -> Result<Self, FetchError> {
        let stream = TokioIo::new(peer.connect(connects).await?);
        let made = http1::Builder::new().max_buf_size(READ_BUFFER).handshake(stream).await;
        let (sender, driver) = made.map_err(FetchError::Broken)?;
        Ok(Self { sender, driver: Some(Box::pin(driver)) })
    }

    async fn ask(&mut self, ask: &Ask) -> Result<Response<hyper::body::Incoming>, FetchError> {
        Self::drive(&mut self.driver, self.sender.ready()).await.map_err(FetchError::Broken)?;
        Self::drive(&mut self.driver, self.sender.send_request(ask.0.clone())).await.map_err(FetchError::Broken)
    }
}

/// Asks one peer, over one connection that is opened when needed and kept while it serves.
pub(crate) struct Client {
    peer: Peer,
    connects: Arc<Connects>,
    live: Option<Live>,
}

impl Client {
    /// A client that is not connected yet.
    pub(crate) fn new(peer: Peer, connects: Arc<Connects>) -> Self {
        Self { peer, connects, live: None }
    }

    /// Whether a connection is kept.
    pub(crate) fn is_open(&self) -> bool {
        self.live.is_some()
    }

    /// Closes the connection.
    pub(crate) fn close(&mut self) {
        self.live = None;
    }

    /// Takes one answer into `sink` and returns its status. When this future is dropped under way, the connection goes with it.
    ///
    /// A connection that was kept may have been closed by the other side meanwhile; the request is then sent once more on a new one.
    pub(crate) async fn ask(&mut self, ask: &Ask, sink: &mut impl Sink) -> Result<StatusCode, FetchError> {
        let kept = match self.live.take() {
            Some(mut live) => live.ask(ask).await.ok().map(|answer| (live, answer)),
            None => None,
        };
        let (mut live, answer) = match kept {
            Some(kept) => kept,
            None => {
                let mut live = Live::open(&self.peer, &self.connects).await?;
                let answer = live.ask(ask).await?;
                (live, answer)
            }
        };
        let status = answer.status();
        let mut body = answer.into_body();
        let expected = body.size_hint().exact();
        sink.restart();
        while let Some(frame) = Live::drive(&mut live.driver, body.frame()).await {
            if let Ok(piece) = frame.map_err(FetchError::Broken)?.into_data() {
                sink.piece(piece, expected)?;
            }
        }
        self.live = live.driver.is_some().then_some(live);
        Ok(status)
    }
}
