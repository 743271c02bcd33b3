//! Listening, and the life of an engine inside a process.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::core::{Shared, drive};
use crate::options::{EngineOptions, OptionsError};
use crate::routes;
use crate::runtime::{ConfigError, FakeMetrics};

/// Connections at once; further ones wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 4_096;
/// How long [`EngineHandle::stop`] waits for running requests.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A running engine. Dropping the handle leaves it running.
#[derive(Debug)]
pub struct EngineHandle {
    addr: SocketAddr,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl EngineHandle {
    /// Where it listens.
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Dies at once, as if the process had been killed: the port closes and every connection breaks.
    pub fn kill(&self) {
        self.task.abort();
    }

    /// Returns when the engine has ended, by [`EngineHandle::kill`] or otherwise: then its port is free.
    pub async fn ended(&mut self) {
        if !self.task.is_finished() {
            let _ = (&mut self.task).await;
        }
    }

    /// Stops listening, lets running requests finish (at most 30 s), then ends.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if tokio::time::timeout(STOP_TIMEOUT, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }

    /// Applies a partial update, as `POST /admin/config` does.
    ///
    /// # Errors
    /// When a key is unknown or a value wrong; nothing is changed then.
    pub fn configure(&self, update: &serde_json::Value) -> Result<(), ConfigError> {
        let mut core = self.shared.core();
        let next = core.runtime.updated(update)?;
        self.shared.set_runtime(&mut core, next);
        Ok(())
    }

    /// Shows these metrics instead of the true ones, or the true ones again.
    pub fn freeze(&self, fake: Option<FakeMetrics>) {
        self.shared.core().runtime.fake = fake;
    }

    /// Whether the health paths say 200 (true) or 503. Requests are answered either way.
    pub fn set_healthy(&self, healthy: bool) {
        self.shared.core().runtime.healthy = healthy;
    }
}

/// Starts an engine on a listener, as a task of the current runtime.
///
/// # Errors
/// When an option is out of its range.
///
/// # Panics
/// Outside a Tokio runtime.
pub fn spawn(options: EngineOptions, listener: TcpListener) -> Result<EngineHandle, OptionsError> {
    let (settings, runtime, adapters) = options.resolve()?;
    let addr = listener.local_addr().unwrap_or_else(|_| settings.options.address());
    let shared = Shared::new(settings, runtime, adapters);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(run(listener, Arc::clone(&shared), addr.port(), stopped));
    Ok(EngineHandle { addr, shared, stop, task })
}

/// Runs an engine until `shutdown`, then lets running requests finish.
///
/// # Errors
/// When an option is out of its range.
pub async fn serve(
    listener: TcpListener,
    options: EngineOptions,
    shutdown: impl Future<Output = ()>,
) -> Result<(), OptionsError> {
    let handle = spawn(options, listener)?;
    shutdown.await;
    handle.stop().await;
    Ok(())
}

/// Everything runs inside this one future (its connections are in a set that dies with it), so that aborting it is a death at once.
async fn run(listener: TcpListener, shared: Arc<Shared>, port: u16, mut stopped: watch::Receiver<bool>) {
    let seats = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut driver = pin!(drive(Arc::clone(&shared)));
    let accept = async || {
        let seat = Arc::clone(&seats).acquire_owned().await;
        (listener.accept().await, seat)
    };
    loop {
        tokio::select! {
            () = &mut driver => unreachable!("the driver never ends"),
            () = told_to_stop(&mut stopped) => break,
            Some(_) = connections.join_next() => {}
            (accepted, seat) = accept() => match accepted {
                Ok((stream, _)) => {
                    let connection = connection(stream, Arc::clone(&shared), port, stopped.clone());
                    connections.spawn(async move {
                        connection.await;
                        drop(seat);
                    });
                }
                Err(error) => {
                    // Out of descriptors, most likely: do not spin.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
            },
        }
    }
    drop(listener);
    loop {
        tokio::select! {
            () = &mut driver => unreachable!("the driver never ends"),
            next = connections.join_next() => if next.is_none() { return },
        }
    }
}

/// Returns when told so; never, when the handle is gone without a word.
async fn told_to_stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stop| *stop).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn connection(stream: TcpStream, shared: Arc<Shared>, port: u16, mut stopped: watch::Receiver<bool>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "no TCP_NODELAY");
    }
    let service = service_fn(move |request| routes::handle(Arc::clone(&shared), port, request));
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(Duration::from_secs(30));
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(1_024);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told_to_stop(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        // Clients leave when they like.
        tracing::debug!(error = %Told(&*error), "a connection ended early");
    }
}

/// An error with its causes.
struct Told<'a>(&'a (dyn std::error::Error + 'static));

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
