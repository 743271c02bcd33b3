//! Engines that answer from a script, clients that see every byte, and a gateway between them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use pointsman_config::Faults;
use pointsman_core::EndpointName;
use pointsman_fleet::{EndpointMeta, Scheme};
use pointsman_gateway::{EjectionOptions, Gateway, GatewayOptions};
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use pointsman_router::{Pool, PoolOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Nothing here takes longer.
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// A request as an engine got it.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Head without the empty line.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
    /// Which connection, from 0.
    pub(crate) connection: usize,
}

impl Received {
    /// All values of a (lower-case) header.
    pub(crate) fn header(&self, name: &str) -> Vec<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v).collect()
    }
}

/// What an engine does with a request.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// Writes these bytes; the connection stays open.
    Write(Vec<u8>),
    /// Writes these bytes, waiting between them.
    Slowly(Vec<Vec<u8>>, Duration),
    /// Writes these bytes, then resets the connection.
    Reset(Vec<u8>),
    /// Writes these bytes, then closes the connection.
    Close(Vec<u8>),
    /// Writes these bytes, then waits for the peer to go.
    Hang(Vec<u8>),
}

type Script = Arc<dyn Fn(&Received) -> Reply + Send + Sync>;

/// A scripted HTTP/1.1 server.
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    pub(crate) received: Arc<Mutex<Vec<Received>>>,
    /// Peers that went while a reply hung.
    pub(crate) left: Arc<AtomicUsize>,
    connections: Arc<Mutex<Vec<JoinHandle<()>>>>,
    accepting: JoinHandle<()>,
}

impl Engine {
    pub(crate) async fn start(script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), script).await
    }

    pub(crate) async fn start_at(at: SocketAddr, script: impl Fn(&Received) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(at).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (received, left) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let connections = Arc::new(Mutex::new(Vec::new()));
        let script: Script = Arc::new(script);
        let (log, gone, all) = (Arc::clone(&received), Arc::clone(&left), Arc::clone(&connections));
        let accepting = tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (script, log, gone) = (Arc::clone(&script), Arc::clone(&log), Arc::clone(&gone));
                all.lock().push(tokio::spawn(serve_engine(stream, number, script, log, gone)));
            }
        });
        Self { address, received, left, connections, accepting }
    }

    /// As `kill -9` does: every connection is reset, new ones are refused.
    pub(crate) fn kill(&self) {
        self.accepting.abort();
        self.connections.lock().drain(..).for_each(|c| c.abort());
    }

    pub(crate) fn only(&self) -> Received {
        let received = self.received.lock();
        assert_eq!(received.len(), 1, "{received:?}");
        received[0].clone()
    }

    pub(crate) fn count(&self) -> usize {
        self.received.lock().len()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Serves one connection by a script.
pub(crate) async fn serve_engine<S: AsyncRead + AsyncWrite + Unpin + Lingering>(
    mut stream: S,
    connection: usize,
    script: Script,
    log: Arc<Mutex<Vec<Received>>>,
    gone: Arc<AtomicUsize>,
) {
    let mut buffer = Vec::new();
    while let Some((head, body)) = read_message(&mut stream, &mut buffer).await {
        let received = Received { head, body, connection };
        log.lock().push(received.clone());
        match script(&received) {
            Reply::Write(bytes) => stream.write_all(&bytes).await.unwrap_or(()),
            Reply::Slowly(all, wait) => {
                for bytes in all {
                    if stream.write_all(&bytes).await.is_err() {
                        gone.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    tokio::time::sleep(wait).await;
                }
            }
            Reply::Reset(bytes) => {
                let _ = stream.write_all(&bytes).await;
                // Let the bytes arrive before the reset takes them away.
                tokio::time::sleep(Duration::from_millis(100)).await;
                stream.reset_on_close();
                return;
            }
            Reply::Close(bytes) => {
                let _ = stream.write_all(&bytes).await;
                return;
            }
            Reply::Hang(bytes) => {
                let _ = stream.write_all(&bytes).await;
                let mut more = [0; 64];
                while matches!(stream.read(&mut more).await, Ok(n) if n > 0) {}
                gone.fetch_add(1, Ordering::SeqCst);
                return;
            }
        }
    }
}

/// Sockets that can be closed with a reset.
pub(crate) trait Lingering {
    fn reset_on_close(&self) {}
}

impl Lingering for TcpStream {
    fn reset_on_close(&self) {
        let _ = self.set_zero_linger();
    }
}

impl<S> Lingering for tokio_rustls::server::TlsStream<S> {}

/// One message with `content-length` or chunked coding (left as it came); `None` at the end of the stream.
async fn read_message<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut Vec<u8>) -> Option<(String, Vec<u8>)> {
    let end = loop {
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            break end;
        }
        fill(stream, buffer).await?;
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    buffer.drain(..end + 4);
    let value = |name: &str| {
        let lines = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.to_owned()).next()
    };
    let size = if value("transfer-encoding").is_some_and(|v| v.contains("chunked")) {
        loop {
            if buffer.ends_with(b"0\r\n\r\n") || trailers_end(buffer) {
                break buffer.len();
            }
            fill(stream, buffer).await?;
        }
    } else {
        value("content-length").map_or(0, |v| v.parse().unwrap())
    };
    while buffer.len() < size {
        fill(stream, buffer).await?;
    }
    Some((head, buffer.drain(..size).collect()))
}

fn trailers_end(buffer: &[u8]) -> bool {
    buffer.ends_with(b"\r\n\r\n") && buffer.windows(5).any(|w| w == b"\r\n0\r\n")
}

async fn fill<S: AsyncRead + Unpin>(stream: &mut S, buffer: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(buffer).await {
        Ok(n) if n > 0 => Some(()),
        _ => None,
    }
}

/// A whole 200 with a length.
pub(crate) fn ok(kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    status("200 OK", kind, body)
}

/// A whole answer with a length.
pub(crate) fn status(line: &str, kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {line}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// The head of an event stream.
pub(crate) const SSE: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";

/// One chunk of a chunked body.
pub(crate) fn chunk(data: impl AsRef<[u8]>) -> Vec<u8> {
    let data = data.as_ref();
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// A running gateway.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) pool: Arc<Pool>,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

impl Running {
    /// In front of engines at these addresses, named `e0`, `e1`, ...
    pub(crate) async fn start(engines: &[SocketAddr], options: GatewayOptions) -> Self {
        Self::start_with(engines, options, |_| {}).await
    }

    pub(crate) async fn start_with(
        engines: &[SocketAddr],
        options: GatewayOptions,
        edit: impl Fn(&mut EndpointMeta),
    ) -> Self {
        Self::start_in(PoolOptions::default(), engines, options, edit).await
    }

    /// In a pool of these options.
    pub(crate) async fn start_in(
        pool_options: PoolOptions,
        engines: &[SocketAddr],
        options: GatewayOptions,
        edit: impl Fn(&mut EndpointMeta),
    ) -> Self {
        let pool_options = PoolOptions { stale_after: Duration::ZERO, ..pool_options };
        let compile_options = CompileOptions {
            allow_experimental: false,
            default: DefaultProfile::Serve,
            states: Arc::clone(&pool_options.states),
        };
        let mut faults = Faults::new();
        let compiled = compile(b"", &compile_options, &mut faults).expect("the default profile is valid");
        let pool = Pool::new(pool_options, compiled);
        for (i, engine) in engines.iter().enumerate() {
            let name = EndpointName::new("default", format!("e{i}"));
            let mut meta = EndpointMeta::new(name, engine.ip().to_string(), engine.port());
            edit(&mut meta);
            pool.fleet.upsert(meta);
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gateway = Gateway::new(Arc::clone(&pool), options).unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            gateway
                .serve(listener, async move {
                    let _ = stopped.await;
                })
                .await;
        });
        Self { address, pool, stop: Some(stop), task }
    }

    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    pub(crate) async fn client(&self) -> Client<TcpStream> {
        Client { stream: TcpStream::connect(self.address).await.unwrap(), buffer: Vec::new() }
    }

    /// One request on its own connection.
    pub(crate) async fn ask(&self, request: impl AsRef<[u8]>) -> Answer {
        let mut client = self.client().await;
        client.send(request).await;
        client.answer().await.expect("an answer")
    }

    /// The records, newest first, as JSON.
    pub(crate) fn records(&self) -> Vec<serde_json::Value> {
        self.pool.ring.newest(1_000, None).iter().map(|d| serde_json::to_value(&**d).unwrap()).collect()
    }

    pub(crate) fn page(&self) -> String {
        self.pool.metrics.render(&self.pool.fleet.snapshot(), self.pool.clock.now(), false)
    }

    /// Everything charged was released.
    pub(crate) async fn settled(&self) {
        eventually("the load is released", || {
            self.pool.fleet.snapshot().endpoints.iter().all(|e| e.load.requests() == 0)
        })
        .await;
    }
}

/// An answer as a client got it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// Head without the empty line.
    pub(crate) head: String,
    /// As it came, chunked coding included.
    pub(crate) raw: Vec<u8>,
}

impl Answer {
    pub(crate) fn status(&self) -> u16 {
        self.head.split(' ').nth(1).unwrap().parse().unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    }

    /// The body without chunked coding.
    pub(crate) fn body(&self) -> Vec<u8> {
        if self.header("transfer-encoding").is_none() {
            return self.raw.clone();
        }
        let (mut out, mut rest) = (Vec::new(), &self.raw[..]);
        while let Some(at) = rest.windows(2).position(|w| w == b"\r\n") {
            let size = usize::from_str_radix(std::str::from_utf8(&rest[..at]).unwrap(), 16).unwrap();
            if size == 0 {
                break;
            }
            out.extend_from_slice(&rest[at + 2..at + 2 + size]);
            rest = &rest[at + 2 + size + 2..];
        }
        out
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body()).unwrap()
    }
}

/// A client that writes and reads bytes.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    pub(crate) buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.unwrap();
    }

    /// The next whole answer; `None` when the connection ends before it is complete.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        let read = read_message(&mut self.stream, &mut self.buffer);
        let (head, raw) = tokio::time::timeout(SOON, read).await.expect("in time")?;
        Some(Answer { head, raw })
    }

    /// Reads until `end` has come.
    pub(crate) async fn until(&mut self, end: &str) {
        let read = async {
            while !self.buffer.windows(end.len()).any(|w| w == end.as_bytes()) {
                assert!(fill(&mut self.stream, &mut self.buffer).await.is_some(), "ended: {:?}", self.text());
            }
        };
        tokio::time::timeout(SOON, read).await.expect("in time");
    }

    /// Reads until so many bytes have come.
    pub(crate) async fn at_least(&mut self, bytes: usize) {
        let read = async {
            while self.buffer.len() < bytes {
                assert!(fill(&mut self.stream, &mut self.buffer).await.is_some(), "ended after {}", self.buffer.len());
            }
        };
        tokio::time::timeout(SOON, read).await.expect("in time");
    }

    /// Reads to the end of the connection.
    pub(crate) async fn rest(&mut self) -> String {
        let read = async { while fill(&mut self.stream, &mut self.buffer).await.is_some() {} };
        tokio::time::timeout(SOON, read).await.expect("in time");
        self.text()
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }
}

/// A request with a JSON body.
pub(crate) fn post(path: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    post_with(path, "", body)
}

/// The same with further header lines.
pub(crate) fn post_with(path: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// A chat request.
pub(crate) fn chat(text: &str) -> Vec<u8> {
    post("/v1/chat/completions", chat_body(text))
}

pub(crate) fn chat_body(text: &str) -> String {
    serde_json::json!({"model": "m", "messages": [{"role": "user", "content": text}]}).to_string()
}

pub(crate) async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !is() {
        assert!(start.elapsed() < SOON, "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Options under which nothing is ejected.
pub(crate) fn no_ejection() -> GatewayOptions {
    let ejection =
        EjectionOptions { failures: u32::MAX, base: Duration::ZERO, max: Duration::ZERO, ..Default::default() };
    GatewayOptions { ejection, ..GatewayOptions::default() }
}

pub(crate) fn https(meta: &mut EndpointMeta) {
    meta.scheme = Scheme::Https;
}
