//! gRPC as a client speaks it: one call a stream, over an HTTP/2 connection of hyper's.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::http::HeaderMap;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pointsman_grpc::{Fields, Frames, Message, WireType, Writer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::process::LONG;

/// A request's body: what is sent into the other end of a channel.
pub(crate) struct Sent(UnboundedReceiver<Bytes>);

impl Body for Sent {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|b| Ok(Frame::data(b))))
    }
}

/// A connection.
#[derive(Clone)]
pub(crate) struct Client {
    sender: SendRequest<Sent>,
}

/// A call that is open.
pub(crate) struct Call {
    /// Dropped, our side is closed.
    pub(crate) sender: Option<UnboundedSender<Bytes>>,
    response: Opening,
    frames: Frames,
    end: Option<(u32, String)>,
}

enum Opening {
    Asked(Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>),
    Answered(Incoming),
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("it listens")).await.expect("it speaks HTTP/2")
    }

    pub(crate) async fn over<S>(stream: S) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Begins a call.
    pub(crate) fn call(&mut self, path: &str) -> Call {
        let (sender, receiver) = unbounded_channel();
        let request = Request::post(format!("http://epp{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Sent(receiver))
            .expect("a request");
        let response = Opening::Asked(Box::pin(self.sender.send_request(request)));
        Call { sender: Some(sender), response, frames: Frames::new(usize::MAX, false), end: None }
    }

    /// Sends one message and gives the first that comes back, or the status.
    pub(crate) async fn unary(&mut self, path: &str, message: &Message) -> Result<Message, (u32, String)> {
        let mut call = self.call(path);
        call.send(message);
        call.sender = None;
        match call.next().await {
            Some(answer) => Ok(answer),
            None => Err(call.end.take().expect("a call without a message has a status")),
        }
    }
}

impl Call {
    /// Sends a message.
    pub(crate) fn send(&self, message: &Message) {
        let payload: Vec<u8> = message.pieces().flatten().copied().collect();
        let mut framed = vec![0];
        framed.extend_from_slice(&u32::try_from(payload.len()).expect("a short message").to_be_bytes());
        framed.extend_from_slice(&payload);
        // A server that is gone is seen when its answer is read.
        let _ = self.sender.as_ref().map(|sender| sender.send(framed.into()));
    }

    /// The next message; `None` when the call is over, and then [`Call::end`] says how.
    pub(crate) async fn next(&mut self) -> Option<Message> {
        tokio::time::timeout(LONG, self.next_ever()).await.expect("an answer within a minute")
    }

    /// The next message, unless none comes for so long.
    pub(crate) async fn within(&mut self, time: Duration) -> Option<Message> {
        tokio::time::timeout(time, self.next_ever()).await.ok().flatten()
    }

    /// Status and message, once the call is over; code 14 where the connection was lost.
    pub(crate) fn end(&self) -> Option<&(u32, String)> {
        self.end.as_ref()
    }

    async fn next_ever(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.frames.take().expect("well-formed frames") {
                return Some(message);
            }
            if self.end.is_some() {
                return None;
            }
            if let Opening::Asked(asked) = &mut self.response {
                match asked.await {
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        self.end = status(&head.headers);
                        self.response = Opening::Answered(body);
                    }
                    Err(error) => self.end = Some((14, error.to_string())),
                }
                continue;
            }
            let Opening::Answered(body) = &mut self.response else { continue };
            match body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.frames.push(bytes),
                    Err(frame) => self.end = frame.trailers_ref().and_then(status),
                },
                Some(Err(error)) => self.end = Some((14, error.to_string())),
                None => self.end = Some((14, "no status".to_owned())),
            }
        }
    }
}

fn status(headers: &HeaderMap) -> Option<(u32, String)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let code = text("grpc-status")?.parse().ok()?;
    Some((code, text("grpc-message").unwrap_or_default().replace("%20", " ")))
}

const STATES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// Names of statuses that recordings spell.
fn code_name(code: u32) -> &'static str {
    match code {
        5 => "NOT_FOUND",
        12 => "UNIMPLEMENTED",
        14 => "UNAVAILABLE",
        _ => "OTHER",
    }
}

/// As recordings spell a status.
pub(crate) fn spelled((code, message): &(u32, String)) -> String {
    format!("{}: {message}", code_name(*code))
}

fn asked(service: &str) -> Message {
    let mut writer = Writer::default();
    writer.bytes(1, service.as_bytes());
    writer.finish().into()
}

fn flat(message: &Message) -> Vec<u8> {
    message.pieces().flatten().copied().collect()
}

/// State in a `HealthCheckResponse`.
fn state(bytes: &[u8]) -> &'static str {
    let mut fields = Fields(bytes);
    while let Ok(Some((field, wire))) = fields.field() {
        if (field, wire) == (1, WireType::Varint) {
            return STATES[fields.varint().expect("a number") as usize];
        }
        fields.skip(wire).expect("a field");
    }
    STATES[0]
}

impl Client {
    /// `Check`: the state, or the status.
    pub(crate) async fn check(&mut self, service: &str) -> String {
        match self.unary("/grpc.health.v1.Health/Check", &asked(service)).await {
            Ok(message) => state(&flat(&message)).to_owned(),
            Err(status) => spelled(&status),
        }
    }

    /// `List`: the state of each service.
    pub(crate) async fn list(&mut self) -> Result<BTreeMap<String, String>, (u32, String)> {
        let message = self.unary("/grpc.health.v1.Health/List", &Message::default()).await?;
        let bytes = flat(&message);
        let mut services = BTreeMap::new();
        let mut fields = Fields(&bytes);
        while let Ok(Some((1, WireType::Length))) = fields.field() {
            let mut entry = Fields(fields.bytes().expect("an entry"));
            let (mut name, mut held) = (String::new(), STATES[0]);
            while let Ok(Some((field, wire))) = entry.field() {
                match field {
                    1 => name = String::from_utf8(entry.bytes().expect("a name").to_vec()).expect("UTF-8"),
                    2 => held = state(entry.bytes().expect("a response")),
                    _ => entry.skip(wire).expect("a field"),
                }
            }
            services.insert(name, held.to_owned());
        }
        Ok(services)
    }

    /// `Watch`, begun.
    pub(crate) fn watch(&mut self, service: &str) -> Call {
        let mut call = self.call("/grpc.health.v1.Health/Watch");
        call.send(&asked(service));
        call.sender = None;
        call
    }
}

impl Call {
    /// The next state of a watched service, or how the watch ended.
    pub(crate) async fn state(&mut self) -> String {
        match self.next().await {
            Some(message) => state(&flat(&message)).to_owned(),
            None => spelled(self.end().expect("it is over")),
        }
    }
}
