//! The admin listener: its routes, behind its guard.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Request, StatusCode};
use tokio::net::TcpListener;

use crate::profiles::Profile;
use crate::reply::{Reply, fault};
use crate::routes::{Ask, answer};
use crate::{Guard, View};

/// Bytes of a request's body. No request needs one; a small one is read and forgotten.
const MAX_BODY: usize = 4 * 1024;
/// For a request's body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);

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
    let guard = Arc::new(guard);
    crate::http::listen(listener, None, stop, move |request, peer, listen| {
        let (view, guard) = (Arc::clone(&view), Arc::clone(&guard));
        async move { respond(&*view, &guard, request, peer, listen).await }
    })
    .await
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
