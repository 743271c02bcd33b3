//! Accepting connections, serving them, and letting them finish.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use pointsman_router::Pool;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::activity::{Activity, Busy, IdleWatch, Verdict, Watched};
use crate::gateway::{self, Gateway, Shared};
use crate::{GatewayError, GatewayOptions};

/// Pause after a failed accept: out of file descriptors, mostly, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Smallest buffer that HTTP/1 connections can have, bytes.
const MIN_HEAD: usize = 8 * 1024;

/// Where a listener stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Serving,
    Draining,
    Cut,
}

/// Serves a pool on one listener until `shutdown`, then lets running responses finish.
///
/// # Errors
/// When a PEM file that the options name is not what it should be; see [`Gateway::new`].
pub async fn serve(
    listener: TcpListener,
    pool: Arc<Pool>,
    options: GatewayOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), GatewayError> {
    Gateway::new(pool, options)?.serve(listener, shutdown).await;
    Ok(())
}

impl Gateway {
    /// Serves one listener until `shutdown`: then accepts no more, reports not ready, lets running responses finish for at most `drain_timeout`,
    /// and cuts those that are left. Returns when no connection is left.
    pub async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()> + Send) {
        let shared = &self.shared;
        let (phase, phases) = watch::channel(Phase::Serving);
        let (alive, mut gone) = mpsc::channel::<Infallible>(1);
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                accepted = accept(shared, &listener) => accepted,
            };
            match accepted {
                Ok((permit, stream)) => {
                    let (shared, phases, alive) = (Arc::clone(shared), phases.clone(), alive.clone());
                    tokio::spawn(async move {
                        shared.metrics.connections.inc();
                        connection(&shared, stream, phases).await;
                        shared.metrics.connections.dec();
                        drop((permit, alive));
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop((listener, alive, phases));
        shared.drain();
        let _ = phase.send(Phase::Draining);
        // Nobody sends on this channel: it ends when the last connection has dropped its end.
        if timeout(shared.options.drain_timeout, gone.recv()).await.is_err() {
            shared.cut_now();
            let _ = phase.send(Phase::Cut);
            gone.recv().await;
        }
    }
}

async fn accept(
    shared: &Shared,
    listener: &TcpListener,
) -> std::io::Result<(tokio::sync::OwnedSemaphorePermit, TcpStream)> {
    let permit = Arc::clone(&shared.slots).acquire_owned().await.expect("the semaphore is never closed");
    let (stream, _) = listener.accept().await?;
    Ok((permit, stream))
}

async fn connection(shared: &Arc<Shared>, stream: TcpStream, phases: watch::Receiver<Phase>) {
    let _ = stream.set_nodelay(true);
    match &shared.acceptor {
        None => exchange(shared, stream, phases).await,
        Some(acceptor) => match timeout(shared.options.header_read_timeout, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => exchange(shared, stream, phases).await,
            Ok(Err(error)) => tracing::debug!(%error, "no TLS with this client"),
            Err(_) => tracing::debug!("a client did not finish its TLS handshake"),
        },
    }
}

async fn exchange<S>(shared: &Arc<Shared>, stream: S, mut phases: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let options = &shared.options;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    // hyper's own time-out for heads runs while a connection is merely idle; ours tells the two apart.
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(options.max_header_bytes.max(MIN_HEAD));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(options.max_header_bytes.min(u32::MAX as usize) as u32);
    let activity = Arc::new(Activity::default());
    let io = TokioIo::new(Watched::new(stream, Arc::clone(&activity)));
    let service = service_fn(|request| {
        let (shared, busy) = (Arc::clone(shared), Busy::new(&activity));
        async move { gateway::answer(shared, request).await.map(|response| response.map(|body| busy.until_sent(body))) }
    });
    let mut connection = pin!(builder.serve_connection(io, service));
    let mut watch = IdleWatch::new(options.header_read_timeout, options.keep_alive_timeout, Instant::now());
    let mut ticks = interval_at(Instant::now() + watch.tick(), watch.tick());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // A connection accepted just before shutdown has missed the news.
    if *phases.borrow_and_update() != Phase::Serving {
        connection.as_mut().graceful_shutdown();
    }
    loop {
        tokio::select! {
            biased;
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "client connection ended");
                }
                return;
            }
            changed = phases.changed() => match changed.map(|()| *phases.borrow_and_update()) {
                Ok(Phase::Serving | Phase::Draining) => connection.as_mut().graceful_shutdown(),
                // Dropping the connection drops its responses, which then know what to report.
                Ok(Phase::Cut) | Err(_) => return,
            },
            now = ticks.tick() => match watch.judge(&activity, now) {
                Verdict::Keep => {}
                Verdict::Close => connection.as_mut().graceful_shutdown(),
                Verdict::Drop => return,
            },
        }
    }
}
