//! A thread that serves connections, and how one connection is served.

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use crate::server::{Phase, Shared};

/// For a TLS handshake, or for the first byte of a caller in the clear.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes of one call that a proxy may send ahead of its being read.
const STREAM_WINDOW: u32 = 256 << 10;
/// The same over all calls of one connection.
const CONNECTION_WINDOW: u32 = 2 << 20;
/// Calls that a proxy may give up in one go. It does so whenever many of its clients leave, and is trusted.
const RESETS: usize = 1 << 16;
/// Silence after which a proxy is asked whether it is still there.
const PING_PAUSE: Duration = Duration::from_secs(60);
/// For it to answer.
const PING_TIMEOUT: Duration = Duration::from_secs(20);

type Work = Box<dyn FnOnce() + Send>;

/// A thread with a runtime of its own. It ends when dropped and its connections are gone.
pub(crate) struct Worker {
    work: mpsc::UnboundedSender<Work>,
    connections: Arc<AtomicUsize>,
}

impl Worker {
    pub(crate) fn start(number: usize) -> io::Result<Self> {
        let (work, mut queue) = mpsc::unbounded_channel::<Work>();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connections = Arc::<AtomicUsize>::default();
        let open = Arc::clone(&connections);
        std::thread::Builder::new().name(format!("grpc-{number}")).spawn(move || {
            runtime.block_on(async move {
                while let Some(work) = queue.recv().await {
                    work();
                }
                // No more connections come; those that are here finish.
                while open.load(Ordering::Acquire) > 0 {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            });
        })?;
        Ok(Self { work, connections })
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Acquire)
    }

    pub(crate) fn take(
        &self,
        stream: std::net::TcpStream,
        shared: Arc<Shared>,
        phases: watch::Receiver<Phase>,
        alive: mpsc::Sender<Infallible>,
    ) {
        let counted = Counted::new(&self.connections);
        let work = move || {
            tokio::spawn(async move {
                match TcpStream::from_std(stream) {
                    Ok(stream) => connection(&shared, stream, phases).await,
                    Err(error) => tracing::warn!(%error, "a connection was lost on its way to its thread"),
                }
                drop((counted, alive));
            });
        };
        // The thread lives as long as its queue.
        let _ = self.work.send(Box::new(work));
    }
}

struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Serves one connection to its end.
pub(crate) async fn connection(shared: &Arc<Shared>, stream: TcpStream, phases: watch::Receiver<Phase>) {
    let Some(tls) = &shared.tls else {
        // Whoever connects and says nothing is no proxy.
        let mut phases = phases.clone();
        let first = async { stream.peek(&mut [0]).await };
        tokio::select! {
            first = tokio::time::timeout(HANDSHAKE, first) => {
                if !matches!(first, Ok(Ok(1..))) {
                    return;
                }
            }
            _ = phases.wait_for(|phase| *phase > Phase::Serving) => return,
        }
        return serve(shared, stream, phases).await;
    };
    let acceptor = TlsAcceptor::from(tls());
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => serve(shared, stream, phases).await,
        Ok(Err(error)) => tracing::debug!(%error, "no TLS with this caller"),
        Err(_) => tracing::debug!("a caller did not finish its TLS handshake"),
    }
}

async fn serve<S>(shared: &Arc<Shared>, stream: S, mut phases: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let called = Arc::new(AtomicBool::new(false));
    let service = service_fn({
        let (shared, called) = (Arc::clone(shared), Arc::clone(&called));
        move |request| {
            called.store(true, Ordering::Relaxed);
            let response = shared.service.call(request, &shared.streams);
            async move { Ok::<_, Infallible>(response) }
        }
    });
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(None)
        .max_pending_accept_reset_streams(RESETS)
        // Over the whole life of a connection: any number would one day end a busy one, and what is under way on it.
        .max_local_error_reset_streams(None)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(64 << 10)
        .keep_alive_interval(PING_PAUSE)
        .keep_alive_timeout(PING_TIMEOUT);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut draining = false;
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection broke");
                }
                return;
            }
            // A server that is gone without a word wants nothing more either.
            changed = phases.wait_for(|phase| *phase > if draining { Phase::Draining } else { Phase::Serving }) => {
                let cut = changed.map_or(true, |phase| *phase == Phase::Cut);
                if cut && draining {
                    return;
                }
                draining = true;
                // Nothing was asked yet, so nothing is left to finish; hyper would wait for a handshake that may never come.
                if !called.load(Ordering::Relaxed) {
                    return;
                }
                connection.as_mut().graceful_shutdown();
                if cut {
                    return;
                }
            }
        }
    }
}
