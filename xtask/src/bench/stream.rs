//! One gRPC stream as Envoy holds it: plain HTTP/2 with Envoy's windows.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use bytes::{Buf as _, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use prost::Message as _;
use tokio::net::TcpStream;

use crate::extproc::{METHOD, ProcessingResponse};

/// `initial_stream_window_size` of the Envoy configuration that deployments use.
const STREAM_WINDOW: u32 = 65_536;

/// `initial_connection_window_size` of the same.
const CONNECTION_WINDOW: u32 = 1 << 20;

/// No answer is larger: its piece of a body has at most 64 KiB, and headers are small.
const MOST: usize = 4 << 20;

/// A connection to the picker. Its task ends when the last handle is dropped.
#[derive(Clone)]
pub(super) struct Connection {
    requests: SendRequest<Bytes>,
    head: http::Request<()>,
}

impl Connection {
    /// Connects.
    pub(super) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect to the picker")?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        let mut builder = h2::client::Builder::new();
        // What the picker sends to a request that was given up is reset by the library, which would give the connection up after 1,024 of them.
        builder.max_local_error_reset_streams(None).max_concurrent_reset_streams(4096);
        builder.initial_window_size(STREAM_WINDOW).initial_connection_window_size(CONNECTION_WINDOW);
        let (requests, connection) = builder.handshake(stream).await.context("no HTTP/2 with the picker")?;
        tokio::spawn(async move {
            // Each stream of a broken connection reports the error itself.
            let _ = connection.await;
        });
        let head = http::Request::post(format!("http://localhost:9002{METHOD}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .header("x-forwarded-for", "192.0.2.2")
            .header("x-envoy-internal", "true")
            .body(())
            .context("a fixed request")?;
        Ok(Self { requests, head })
    }

    /// Opens a stream, when the picker allows one more.
    pub(super) async fn stream(&self) -> Result<Stream> {
        let mut requests = self.requests.clone().ready().await.context("the connection is gone")?;
        let (response, sent) = requests.send_request(self.head.clone(), false).context("cannot open a stream")?;
        Ok(Stream {
            sent,
            answers: Answers { source: Source::Awaited(response), chunk: Bytes::new(), part: BytesMut::new() },
        })
    }
}

/// An open stream.
pub(super) struct Stream {
    sent: SendStream<Bytes>,
    /// What comes back.
    pub(super) answers: Answers,
}

impl Stream {
    /// Queues a message; it leaves as far as the windows are open, whoever else is waiting.
    pub(super) fn send(&mut self, message: Bytes) -> Result<()> {
        self.sent.send_data(message, false).context("the stream takes no more")
    }

    /// Sends a message and returns when its last byte has been handed to the connection, windows permitting.
    pub(super) async fn send_all(&mut self, mut message: Bytes) -> Result<()> {
        while !message.is_empty() {
            self.sent.reserve_capacity(message.len());
            let capacity = std::future::poll_fn(|context| self.sent.poll_capacity(context)).await;
            let Some(capacity) = capacity else { bail!("the stream was closed while the body was on its way") };
            let capacity = capacity.context("the stream broke while the body was on its way")?;
            self.send(message.split_to(capacity.min(message.len())))?;
        }
        Ok(())
    }

    /// Ends the stream as Envoy does when it has its last answer, and wants a good status.
    pub(super) async fn close(mut self) -> Result<()> {
        self.sent.send_data(Bytes::new(), true).context("the stream cannot be ended")?;
        if let Some(extra) = self.answers.next().await? {
            bail!("an answer after the last one: {extra:?}");
        }
        self.answers.status().await
    }

    /// Takes the stream apart, so that both directions can be served by different tasks.
    pub(super) fn split(self) -> (SendStream<Bytes>, Answers) {
        (self.sent, self.answers)
    }

    /// Gives the stream up, as Envoy does when its client is gone.
    pub(super) fn reset(mut self) {
        self.sent.send_reset(Reason::CANCEL);
    }
}

/// The direction from the picker.
pub(super) struct Answers {
    source: Source,
    chunk: Bytes,
    part: BytesMut,
}

enum Source {
    Awaited(ResponseFuture),
    Open(RecvStream),
}

impl Answers {
    /// The next answer; `None` at the end of the stream.
    pub(super) async fn next(&mut self) -> Result<Option<ProcessingResponse>> {
        let Some(message) = self.message().await? else { return Ok(None) };
        ProcessingResponse::decode(message).map(Some).context("an answer that is no ProcessingResponse")
    }

    /// The next message: a slice of what was read where it lies in one frame.
    async fn message(&mut self) -> Result<Option<Bytes>> {
        loop {
            if self.part.is_empty() {
                if let Some(length) = length(&self.chunk)?.filter(|length| self.chunk.len() >= 5 + length) {
                    self.chunk.advance(5);
                    return Ok(Some(self.chunk.split_to(length)));
                }
                self.part.extend_from_slice(&self.chunk);
                self.chunk.clear();
            } else if let Some(length) = length(&self.part)? {
                let wanted = (5 + length).saturating_sub(self.part.len());
                self.part.reserve(wanted);
                self.part.extend_from_slice(&self.chunk.split_to(wanted.min(self.chunk.len())));
                if self.part.len() == 5 + length {
                    let mut message = self.part.split().freeze();
                    message.advance(5);
                    return Ok(Some(message));
                }
            } else if !self.chunk.is_empty() {
                self.part.extend_from_slice(&self.chunk.split_to(self.chunk.len().min(5 - self.part.len())));
                continue;
            }
            match self.data().await? {
                Some(chunk) => self.chunk = chunk,
                None if self.part.is_empty() => return Ok(None),
                None => bail!("the stream ended within an answer"),
            }
        }
    }

    async fn data(&mut self) -> Result<Option<Bytes>> {
        let stream = self.open().await?;
        let Some(chunk) = stream.data().await else { return Ok(None) };
        let chunk = chunk.context("the stream broke")?;
        stream.flow_control().release_capacity(chunk.len()).context("the window cannot be opened")?;
        Ok(Some(chunk))
    }

    async fn open(&mut self) -> Result<&mut RecvStream> {
        if let Source::Awaited(response) = &mut self.source {
            let response = response.await.context("no answer to the call")?;
            if response.status() != http::StatusCode::OK {
                bail!("the call was answered with {}", response.status());
            }
            if let Some(status) = response.headers().get("grpc-status") {
                bail!("the call was refused with {status:?} {:?}", response.headers().get("grpc-message"));
            }
            self.source = Source::Open(response.into_body());
        }
        match &mut self.source {
            Source::Open(stream) => Ok(stream),
            Source::Awaited(_) => bail!("the stream was just opened"),
        }
    }

    /// The status in the trailers, which must be 0.
    async fn status(&mut self) -> Result<()> {
        let stream = self.open().await?;
        let trailers = stream.trailers().await.context("the stream broke at its end")?.unwrap_or_default();
        match trailers.get("grpc-status") {
            Some(status) if status == "0" => Ok(()),
            other => bail!("the stream ended with status {other:?} {:?}", trailers.get("grpc-message")),
        }
    }
}

/// The length that a message announces, once its five leading bytes are there.
fn length(bytes: &[u8]) -> Result<Option<usize>> {
    let Some((prefix, _)) = bytes.split_first_chunk::<5>() else { return Ok(None) };
    let [compressed, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    if compressed != 0 || length > MOST {
        bail!("an answer of {length} bytes, flags {compressed}");
    }
    Ok(Some(length))
}
