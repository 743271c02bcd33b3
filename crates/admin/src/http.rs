//! HTTP/1.1 listeners of the process itself: connections accepted, bounded, served over TLS or not, and let end.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

use crate::reply::Reply;

/// Connections at once; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 256;
/// Bytes of a request's head.
const MAX_HEAD: usize = 32 * 1024;
/// For a request's head to arrive; also how long a kept connection may be silent.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// For a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// For answers under way when the process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Where the TLS set-up for the next connection comes from; it may change while the listener is open.
pub type TlsSource = Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync>;

/// Answers on `listener` until `stop` completes, then lets answers under way end, for two seconds at most. `respond` gets each request with the
/// addresses of its peer and of the listener.
pub(crate) async fn listen<R, F>(
    listener: TcpListener,
    tls: Option<TlsSource>,
    stop: impl Future<Output = ()>,
    respond: R,
) -> io::Result<()>
where
    R: Fn(Request<Incoming>, SocketAddr, SocketAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Reply> + Send + 'static,
{
    let listen = listener.local_addr()?;
    let (seats, graceful) = (Arc::new(Semaphore::new(MAX_CONNECTIONS)), GracefulShutdown::new());
    let mut stop = std::pin::pin!(stop);
    loop {
        let accepted = async {
            let seat = Arc::clone(&seats).acquire_owned().await;
            (listener.accept().await, seat)
        };
        let (accepted, seat) = tokio::select! {
            () = &mut stop => break,
            accepted = accepted => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, most likely: others close theirs sooner or later.
                tracing::warn!(%error, %listen, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (respond, watcher, tls) = (respond.clone(), graceful.watcher(), tls.clone());
        tokio::spawn(async move {
            let respond = move |request| respond(request, peer, listen);
            match tls {
                None => serve(stream, watcher, respond, peer).await,
                Some(tls) => match tokio::time::timeout(HANDSHAKE, TlsAcceptor::from(tls()).accept(stream)).await {
                    Ok(Ok(stream)) => serve(stream, watcher, respond, peer).await,
                    Ok(Err(error)) => tracing::debug!(%peer, %error, "no TLS with this client"),
                    Err(_) => tracing::debug!(%peer, "a client did not finish its TLS handshake"),
                },
            }
            drop(seat);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(STOP_TIMEOUT, graceful.shutdown()).await;
    Ok(())
}

async fn serve<S, R, F>(stream: S, watcher: Watcher, respond: R, peer: SocketAddr)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    R: Fn(Request<Incoming>) -> F,
    F: Future<Output = Reply> + Send + 'static,
{
    let service = service_fn(|request| {
        let reply = respond(request);
        async move { Ok::<_, Infallible>(reply.await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
    let connection = watcher.watch(http.serve_connection(TokioIo::new(stream), service));
    if let Err(error) = connection.await {
        tracing::debug!(%peer, %error, "a connection ended");
    }
}
