//! An engine that answers what a test tells it to, byte for byte.
#![allow(dead_code, clippy::unwrap_used, reason = "each test file uses its part; a test may panic")]

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pointsman_config::Faults;
use pointsman_core::{Clock, EndpointName, SystemClock};
use pointsman_fleet::{Change, Endpoint, EndpointMeta, Fleet};
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use pointsman_sources::{Counters, ScrapeSource, Sources, SourcesOptions, TlsClient};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What is sent for a path.
#[derive(Clone)]
pub(crate) enum Reply {
    /// Status and body, with a length.
    Plain(u16, Vec<u8>),
    /// Every byte of the answer, in pieces; the connection is closed after it.
    Raw(Vec<Vec<u8>>),
    /// Nothing, until the client leaves.
    Silence,
}

impl Reply {
    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Plain(200, body.into())
    }
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    pub(crate) open: AtomicUsize,
    pub(crate) requests: Mutex<HashMap<String, usize>>,
    pub(crate) replies: Mutex<HashMap<String, Reply>>,
    /// Heads and bodies of requests that had one.
    pub(crate) posted: Mutex<Vec<(String, String)>>,
}

/// Stops when dropped, with its connections.
pub(crate) struct Engine {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    _tasks: JoinSet<()>,
}

impl Engine {
    pub(crate) async fn start() -> Self {
        Self::at("127.0.0.1:0".parse().unwrap(), None).await
    }

    pub(crate) async fn at(address: SocketAddr, tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let told = Arc::clone(&seen);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                while connections.try_join_next().is_some() {}
                told.connections.fetch_add(1, Ordering::SeqCst);
                let (seen, tls) = (Arc::clone(&told), tls.clone());
                connections.spawn(async move {
                    seen.open.fetch_add(1, Ordering::SeqCst);
                    let _open = Open(Arc::clone(&seen));
                    match tls {
                        None => answer(stream, &seen).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, &seen).await;
                            }
                        }
                    }
                });
            }
        });
        Self { address, seen, _tasks: tasks }
    }

    pub(crate) fn reply(&self, path: &str, reply: Reply) -> &Self {
        self.seen.replies.lock().insert(path.to_owned(), reply);
        self
    }

    pub(crate) fn asked(&self, path: &str) -> usize {
        self.seen.requests.lock().get(path).copied().unwrap_or(0)
    }

    pub(crate) fn meta(&self, name: &str) -> EndpointMeta {
        EndpointMeta::new(EndpointName::new("default", name), self.address.ip().to_string(), self.address.port())
    }
}

struct Open(Arc<Seen>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, seen: &Seen) {
    let mut head = Vec::new();
    let mut byte = [0; 512];
    while let Ok(n @ 1..) = stream.read(&mut byte).await {
        head.extend_from_slice(&byte[..n]);
        let Some(end) = head.windows(4).position(|w| w == b"\r\n\r\n").map(|at| at + 4) else { continue };
        let text = String::from_utf8_lossy(&head[..end]).into_owned();
        let length =
            text.lines().find_map(|l| l.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
        if head.len() < end + length.unwrap_or(0) {
            continue;
        }
        let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
        if length.is_some() {
            seen.posted.lock().push((text, String::from_utf8_lossy(&head[end..]).into_owned()));
        }
        head.clear();
        *seen.requests.lock().entry(path.clone()).or_default() += 1;
        let reply = seen.replies.lock().get(&path).cloned();
        match reply.unwrap_or(Reply::Plain(404, b"no such path".to_vec())) {
            Reply::Plain(status, body) => {
                let mut bytes = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n", body.len()).into_bytes();
                bytes.extend_from_slice(&body);
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Reply::Raw(pieces) => {
                for piece in pieces {
                    if stream.write_all(&piece).await.is_err() || stream.flush().await.is_err() {
                        return;
                    }
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                return;
            }
            Reply::Silence => {
                while matches!(stream.read(&mut byte).await, Ok(1..)) {}
                return;
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Count {
    pub(crate) poll: AtomicUsize,
    pub(crate) extract: AtomicUsize,
    /// Types of sources, and of sources and extractors, of which something was counted.
    pub(crate) types: Mutex<BTreeSet<String>>,
}

impl Count {
    pub(crate) fn types(&self) -> Vec<String> {
        self.types.lock().iter().cloned().collect()
    }
}

impl Counters for Count {
    fn poll_error(&self, source_type: &str) {
        self.types.lock().insert(source_type.to_owned());
        self.poll.fetch_add(1, Ordering::SeqCst);
    }

    fn extract_error(&self, source_type: &str, extractor_type: &str) {
        self.types.lock().insert(format!("{source_type} {extractor_type}"));
        self.extract.fetch_add(1, Ordering::SeqCst);
    }
}

/// A fleet that is fed.
pub(crate) struct Fed {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) sources: Sources,
    pub(crate) count: Arc<Count>,
    pub(crate) clock: Arc<SystemClock>,
}

impl Fed {
    pub(crate) fn start(change: impl FnOnce(&mut SourcesOptions)) -> Self {
        Self::with(default_sources(), change)
    }

    pub(crate) fn with(scrape: Vec<ScrapeSource>, change: impl FnOnce(&mut SourcesOptions)) -> Self {
        let clock = Arc::new(SystemClock::default());
        let fleet = Arc::new(Fleet::new(clock.clone()));
        let count = Arc::new(Count::default());
        let mut options = SourcesOptions::new(TlsClient::insecure());
        change(&mut options);
        let sources = Sources::start(&fleet, scrape, options, clock.clone(), count.clone()).unwrap();
        Self { fleet, sources, count, clock }
    }

    pub(crate) fn scraping_only() -> Self {
        Self::start(|o| {
            o.health = None;
            o.models_interval = None;
        })
    }

    pub(crate) fn add(&self, meta: EndpointMeta) -> Arc<Endpoint> {
        match self.fleet.upsert(meta) {
            Change::Added(e) | Change::Updated(e) | Change::Unchanged(e) | Change::Replaced { new: e, .. } => e,
            Change::Removed(_) => unreachable!("nothing is removed by adding"),
        }
    }

    pub(crate) fn age_ms(&self, endpoint: &Endpoint) -> Option<u128> {
        endpoint.engine.view().age(self.clock.now()).map(|age| age.as_millis())
    }
}

/// What an empty configuration scrapes.
pub(crate) fn default_sources() -> Vec<ScrapeSource> {
    compiled("")
}

pub(crate) fn compiled(document: &str) -> Vec<ScrapeSource> {
    let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Serve, states: Arc::default() };
    let mut faults = Faults::new();
    let compiled = compile(document.as_bytes(), &options, &mut faults);
    ScrapeSource::compile_all(&compiled.unwrap_or_else(|| panic!("{faults:?}")).sources).unwrap()
}

/// Waits until something holds; fails after ten seconds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(10), "never: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) async fn pause(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
