//! HTTP/1.1 around the routes.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::profiles::Profile;
use crate::reply::{Reply, fault};
use crate::routes::{Ask, answer};
use crate::{Guard, View};

/// Connections at once; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 256;
/// Bytes of a request's head.
const MAX_HEAD: usize = 32 * 1024;
/// Bytes of a request's body. No request needs one; a small one is read and forgotten.
const MAX_BODY: usize = 4 * 1024;
/// For a request's head to arrive; also how long a kept connection may be silent.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// For a request's body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// For answers under way when the process stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers on `listener` until `stop` completes, then lets answers under way end, for two seconds at most.
///
/// # Errors
/// When the listener has no local address.
pub async fn serve<V: View>(
    listener: TcpListener,
    view: Arc<V>,
    guard: Guard,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let listen = listener.local_addr()?;
    let (guard, seats, graceful) =
        (Arc::new(guard), Arc::new(Semaphore::new(MAX_CONNECTIONS)), GracefulShutdown::new());
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
                tracing::warn!(%error, "the admin listener cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (view, guard) = (Arc::clone(&view), Arc::clone(&guard));
        let service = service_fn(move |request| {
            let (view, guard) = (Arc::clone(&view), Arc::clone(&guard));
            async move { Ok::<_, Infallible>(respond(&*view, &guard, request, peer, listen).await) }
        });
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(MAX_HEAD);
        let connection = graceful.watch(http.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%peer, %error, "admin connection ended");
            }
            drop(seat);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(STOP_TIMEOUT, graceful.shutdown()).await;
    Ok(())
}

async fn respond(
    view: &impl View,
    guard: &Guard,
    request: Request<Incoming>,
    peer: SocketAddr,
    listen: SocketAddr,
) -> Reply {
    let (head, body) = request.into_parts();
    // Read to the end, so that the connection can be kept.
    match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(_)) => {}
        Ok(Err(_)) => return fault(StatusCode::PAYLOAD_TOO_LARGE, "no request here needs a body of more than 4 KiB"),
        Err(_) => return fault(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive"),
    }
    let ask = Ask { method: &head.method, uri: &head.uri, headers: &head.headers, peer, listen };
    match Profile::at(head.uri.path()) {
        Some(profile) => profile.answer(guard, &ask).await,
        None => answer(view, guard, &ask),
    }
}
