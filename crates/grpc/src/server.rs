//! Accepting connections, and letting calls finish.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_rustls::rustls::ServerConfig;

use crate::worker::{self, Worker};
use crate::{Body, Streams};

/// Pause after a failed accept: out of file descriptors, mostly, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// After calls were told to end, their last words may take this long to get out.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What answers calls.
pub trait Service: Send + Sync + 'static {
    /// Answers one. Must not block.
    fn call(&self, request: Request<Incoming>, streams: &Streams) -> Response<Body>;
}

/// Where the TLS set-up for the next connection comes from; it may change while the server runs.
pub type TlsSource = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// How to serve.
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// Threads of their own that connections are spread over, each with a runtime of one thread; 0: the caller's runtime serves.
    pub threads: usize,
    /// With TLS.
    pub tls: Option<TlsSource>,
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions").field("threads", &self.threads).field("tls", &self.tls.is_some()).finish()
    }
}

/// Where a server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Serving,
    Draining,
    Cut,
}

/// What every connection needs.
pub(crate) struct Shared {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) streams: Streams,
    pub(crate) tls: Option<TlsSource>,
}

/// A server. See [`Server::serve`].
pub struct Server {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts the threads.
    ///
    /// # Errors
    /// When a thread cannot be had.
    pub fn new(service: Arc<dyn Service>, options: &ServerOptions) -> io::Result<Self> {
        let workers = (0..options.threads).map(Worker::start).collect::<io::Result<_>>()?;
        let shared = Shared { service, streams: Streams::default(), tls: options.tls.clone() };
        Ok(Self { shared: Arc::new(shared), workers })
    }

    /// The open calls.
    #[must_use]
    pub fn streams(&self) -> &Streams {
        &self.shared.streams
    }

    /// Serves until `stop`; then takes no new calls, and lets open ones finish for at most `patience`, after which they are ended.
    pub async fn serve(self, listener: TcpListener, stop: impl Future<Output = ()>, patience: Duration) {
        let (phase, phases) = watch::channel(Phase::Serving);
        let (alive, mut gone) = mpsc::channel::<Infallible>(1);
        let mut stop = std::pin::pin!(stop);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut stop => break,
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, _)) => self.hand_over(stream, &phases, &alive),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, alive, phases));
        let _ = phase.send(Phase::Draining);
        // Nobody sends on this channel: it ends when the last connection has dropped its end.
        if timeout(patience, gone.recv()).await.is_err() {
            let open = self.shared.streams.open();
            tracing::warn!(open, "calls still open after {} s are ended", patience.as_secs());
            self.shared.streams.cut();
            if timeout(LAST_WORDS, gone.recv()).await.is_err() {
                let _ = phase.send(Phase::Cut);
                gone.recv().await;
            }
        }
    }

    fn hand_over(&self, stream: TcpStream, phases: &watch::Receiver<Phase>, alive: &mpsc::Sender<Infallible>) {
        let _ = stream.set_nodelay(true);
        let (shared, phases, alive) = (Arc::clone(&self.shared), phases.clone(), alive.clone());
        let least = self.workers.iter().min_by_key(|worker| worker.connections());
        match least {
            None => {
                tokio::spawn(async move {
                    worker::connection(&shared, stream, phases).await;
                    drop(alive);
                });
            }
            Some(worker) => match stream.into_std() {
                Ok(stream) => worker.take(stream, shared, phases, alive),
                Err(error) => tracing::warn!(%error, "a connection was lost on its way to a thread"),
            },
        }
    }
}
