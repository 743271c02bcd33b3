//! The admin listener: its routes, behind its guard.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

use crate::page::Page;
use crate::prefix;
use crate::profiles::Profile;
use crate::reply::{Reply, fault, json};
use crate::routes::{Ask, admitted, answer, extended, not_allowed};
use crate::stream::Streams;
use crate::{Admin, View};

/// Bytes of a request's body.
const MAX_BODY: usize = 4 * 1024;
/// For a request's body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Looks at the prefix index under way at once; they take milliseconds of a thread.
const MAX_LOOKS: usize = 2;

/// What all requests to one listener share.
struct Listener<V> {
    view: Arc<V>,
    admin: Admin,
    streams: Streams,
    looks: Semaphore,
}

/// Answers on `listener` until `stop` completes, then lets answers under way end, for two seconds at most.
///
/// # Errors
/// When the listener has no local address.
pub async fn serve<V: View>(
    listener: TcpListener,
    view: Arc<V>,
    admin: impl Into<Admin>,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let (stopping, stopped) = watch::channel(false);
    let shared = Arc::new(Listener {
        view,
        admin: admin.into(),
        streams: Streams::new(stopped),
        looks: Semaphore::new(MAX_LOOKS),
    });
    let stop = async {
        stop.await;
        // Streams end by themselves only when their viewers leave.
        stopping.send_replace(true);
    };
    crate::http::listen(listener, None, stop, move |request, peer, listen| {
        let shared = Arc::clone(&shared);
        async move { respond(&shared, request, peer, listen).await }
    })
    .await
}

async fn respond<V: View>(
    shared: &Listener<V>,
    request: Request<Incoming>,
    peer: SocketAddr,
    listen: SocketAddr,
) -> Reply {
    let (head, body) = request.into_parts();
    // Read to the end, so that the connection can be kept.
    let body = match tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) => return fault(StatusCode::PAYLOAD_TOO_LARGE, "no request here needs a body of more than 4 KiB"),
        Err(_) => return fault(StatusCode::REQUEST_TIMEOUT, "the request's body did not arrive"),
    };
    let ask = Ask { method: &head.method, uri: &head.uri, headers: &head.headers, body: &body, peer, listen };
    let (path, guard) = (head.uri.path(), &shared.admin.guard);
    if let Some(page) = Page::at(path, &head.headers) {
        return page.answer(guard, &ask);
    }
    if let Some(profile) = Profile::at(path) {
        return profile.answer(guard, &ask).await;
    }
    match path {
        "/api/stream" | "/api/prefix" => match admitted(guard, &ask) {
            Err(denied) => *denied,
            Ok(()) if head.method != Method::GET => not_allowed(&[Method::GET]),
            Ok(()) if path == "/api/stream" => shared.streams.open(&shared.view, head.uri.query().unwrap_or("")),
            Ok(()) => prefixes(shared).await,
        },
        _ => match answer(&*shared.view, guard, &ask) {
            Some(reply) => reply,
            None => extended(&shared.admin, head.method, head.uri, body).await,
        },
    }
}

async fn prefixes<V: View>(shared: &Listener<V>) -> Reply {
    let _look = shared.looks.acquire().await;
    let view = Arc::clone(&shared.view);
    match tokio::task::spawn_blocking(move || view.prefixes().as_ref().map(prefix::Shown::of)).await {
        Ok(Some(shown)) => json(&shown),
        Ok(None) => {
            fault(StatusCode::NOT_FOUND, "no prefix index is kept: the configuration has no prefix-cache producer")
        }
        Err(_) => fault(StatusCode::INTERNAL_SERVER_ERROR, "the prefix index could not be looked at"),
    }
}
