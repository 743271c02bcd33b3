//! Accepting connections, serving them, and letting them finish.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulConnection;
use pointsman_router::Pool;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};

use crate::activity::{Activity, Busy, IdleWatch, Patience, Verdict, Watched};
use crate::gateway::{self, Gateway, Shared};
use crate::stall::Spawn;
use crate::{GatewayError, GatewayOptions};

/// Pause after a failed accept: out of file descriptors, mostly, which passes.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How HTTP/2 begins.
const PREFACE: [u8; 3] = *b"PRI";
/// Pause while less than that is here.
const PREFACE_PAUSE: Duration = Duration::from_millis(5);
/// Silence of an HTTP/2 client after which it is asked whether it is still there.
const PING_PAUSE: Duration = Duration::from_secs(30);

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

async fn connection(shared: &Arc<Shared>, stream: TcpStream, mut phases: watch::Receiver<Phase>) {
    let _ = stream.set_nodelay(true);
    let first = async {
        match &shared.acceptor {
            None => speaks_http2(&stream).await.map(|http2| (None, http2)),
            Some(_) => Ok((shared.acceptor.as_ref(), false)),
        }
    };
    let limit = shared.options.header_read_timeout;
    let first = tokio::select! {
        // A request that is here already is told that it comes too late.
        biased;
        first = timeout(limit, first) => first,
        // Nothing was asked yet, so nothing is left to finish.
        _ = phases.wait_for(|phase| *phase != Phase::Serving) => return,
    };
    match first {
        Ok(Ok((None, http2))) => exchange(shared, stream, http2, phases).await,
        Ok(Ok((Some(acceptor), _))) => match timeout(limit, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                exchange(shared, stream, http2, phases).await;
            }
            Ok(Err(error)) => tracing::debug!(%error, "no TLS with this client"),
            Err(_) => tracing::debug!("a client did not finish its TLS handshake"),
        },
        Ok(Err(error)) => tracing::debug!(%error, "a client went before its first request"),
        Err(_) => tracing::debug!("a client sent nothing"),
    }
}

/// Whether the first bytes are those of HTTP/2's preface; no method of HTTP/1 begins like it. Takes nothing from the stream.
async fn speaks_http2(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0; PREFACE.len()];
    loop {
        let n = stream.peek(&mut first).await?;
        if n == 0 || n == PREFACE.len() || !PREFACE.starts_with(&first[..n]) {
            return Ok(first == PREFACE);
        }
        // Peeking again would return at once with the same bytes.
        tokio::time::sleep(PREFACE_PAUSE).await;
    }
}

async fn exchange<S>(shared: &Arc<Shared>, stream: S, http2: bool, phases: watch::Receiver<Phase>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let options = &shared.options;
    let activity = Arc::new(Activity::new(http2));
    let io = TokioIo::new(Watched::new(stream, Arc::clone(&activity)));
    let service = service_fn(|request| {
        let (shared, busy) = (Arc::clone(shared), Busy::new(&activity));
        async move { gateway::answer(shared, request).await.map(|response| response.map(|body| busy.until_sent(body))) }
    });
    if http2 {
        let limit = options.response_idle_timeout;
        let connection = http2::Builder::new(Spawn { limit })
            .timer(TokioTimer::new())
            // A client may answer a ping late because it takes nothing else either: it may do so for as long.
            .keep_alive_interval(PING_PAUSE.min(options.keep_alive_timeout))
            .keep_alive_timeout(limit)
            .max_header_list_size(options.max_header_bytes.min(u32::MAX as usize) as u32)
            .serve_connection(io, service);
        watch_over(shared, connection, &activity, phases).await;
    } else {
        // hyper's own time-out for heads runs while a connection is merely idle; `IdleWatch` tells the two apart.
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .max_header_size(options.max_header_bytes)
            .serve_connection(io, service);
        watch_over(shared, connection, &activity, phases).await;
    }
}

async fn watch_over<C: GracefulConnection>(
    shared: &Shared,
    connection: C,
    activity: &Activity,
    mut phases: watch::Receiver<Phase>,
) where
    C::Error: std::fmt::Display,
{
    let mut connection = pin!(connection);
    let options = &shared.options;
    let patience = Patience {
        head: options.header_read_timeout,
        keep_alive: options.keep_alive_timeout,
        take: options.response_idle_timeout,
    };
    let mut watch = IdleWatch::new(patience, Instant::now());
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
            now = ticks.tick() => match watch.judge(activity, now) {
                Verdict::Keep => {}
                Verdict::Close => connection.as_mut().graceful_shutdown(),
                Verdict::Drop => return,
            },
        }
    }
}
