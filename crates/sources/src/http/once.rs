//! One question to one address, for a person who waits for the answer.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, DATE, HOST, HeaderValue, USER_AGENT};
use hyper::{Request, Uri};
use hyper_util::rt::TokioIo;
use pointsman_fleet::EndpointMeta;

use crate::http::{Connects, FetchError, PageAt, Peer, TlsClient};
use crate::page::MAX_PAGE;

/// What came back, whatever its status.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The header `date`.
    pub date: Option<String>,
    /// The whole body.
    pub body: Bytes,
}

/// Asks for one page over a connection of its own. `at`: where the page is, if it is not on the endpoint's API.
///
/// # Errors
/// When there is no answer within `deadline`, or none that can be read.
pub async fn ask(
    meta: &EndpointMeta,
    at: Option<&PageAt>,
    path: &str,
    tls: &TlsClient,
    deadline: Duration,
) -> Result<Answer, FetchError> {
    let peer = at.and_then(|at| Peer::of_page(meta, at, tls)).unwrap_or_else(|| Peer::api(meta, tls));
    let asked = tokio::time::timeout(deadline, exchange(&peer, path));
    asked.await.unwrap_or(Err(FetchError::Late(deadline)))
}

async fn exchange(peer: &Peer, path: &str) -> Result<Answer, FetchError> {
    let stream = TokioIo::new(peer.connect(&Connects::default()).await?);
    let (mut sender, connection) = http1::handshake(stream).await.map_err(FetchError::Broken)?;
    let driver = tokio::spawn(connection);
    let mut request = Request::new(Empty::<Bytes>::new());
    *request.uri_mut() = path.parse().unwrap_or_else(|_| Uri::from_static("/"));
    let headers = request.headers_mut();
    headers.extend(HeaderValue::from_str(&peer.authority).ok().map(|host| (HOST, host)));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("pointsman/", env!("CARGO_PKG_VERSION"))));
    let answer = sender.send_request(request).await.map_err(FetchError::Broken)?;
    let status = answer.status().as_u16();
    let date = answer.headers().get(DATE).and_then(|d| d.to_str().ok()).map(str::to_owned);
    let body = Limited::new(answer.into_body(), MAX_PAGE).collect().await;
    driver.abort();
    match body {
        Ok(body) => Ok(Answer { status, date, body: body.to_bytes() }),
        Err(error) => Err(match error.downcast::<hyper::Error>() {
            Ok(error) => FetchError::Broken(*error),
            Err(_) => FetchError::TooLarge(MAX_PAGE),
        }),
    }
}
