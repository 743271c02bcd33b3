//! A small HTTP client that sees what a user of the gateway sees.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Method, Request, Response, header};
use hyper_util::client::legacy::{Client as Pool, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde_json::Value;

/// How long a plain call (not a completion) may take.
const CALL: Duration = Duration::from_secs(30);

/// A client with kept-alive connections.
#[derive(Clone)]
pub(crate) struct Client {
    pool: Pool<HttpConnector, Full<Bytes>>,
}

/// A whole answer.
pub(crate) struct Reply {
    /// The status code.
    pub(crate) status: u16,
    /// The whole body.
    pub(crate) body: Bytes,
}

impl Reply {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("not JSON: {}", String::from_utf8_lossy(&self.body[..self.body.len().min(200)])))
    }
}

/// A header's value, empty when absent or not text.
pub(crate) fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> &'h str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

impl Client {
    /// A client without connections yet.
    pub(crate) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        Self { pool: Pool::builder(TokioExecutor::new()).build(connector) }
    }

    /// `GET url`.
    pub(crate) async fn get(&self, url: &str) -> Result<Reply> {
        self.call(Method::GET, url, None).await
    }

    /// `GET url`, whose answer must be 200 and JSON.
    pub(crate) async fn get_json(&self, url: &str) -> Result<Value> {
        let reply = self.get(url).await?;
        if reply.status != 200 {
            bail!("GET {url}: status {}", reply.status);
        }
        reply.json().with_context(|| format!("GET {url}"))
    }

    /// `POST url` with a JSON body, or with none.
    pub(crate) async fn post(&self, url: &str, body: Option<Bytes>) -> Result<Reply> {
        self.call(Method::POST, url, body).await
    }

    /// Sends a JSON body and hands back the answer once its headers are there.
    pub(crate) async fn send(&self, url: &str, body: Bytes) -> Result<Response<Incoming>> {
        self.exchange(Method::POST, url, Some(body)).await
    }

    async fn call(&self, method: Method, url: &str, body: Option<Bytes>) -> Result<Reply> {
        let whole = async {
            let response = self.exchange(method, url, body).await?;
            let status = response.status().as_u16();
            let body =
                response.into_body().collect().await.with_context(|| format!("{url}: the body broke off"))?.to_bytes();
            Ok(Reply { status, body })
        };
        tokio::time::timeout(CALL, whole).await.with_context(|| format!("{url}: no answer within {CALL:?}"))?
    }

    async fn exchange(&self, method: Method, url: &str, body: Option<Bytes>) -> Result<Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(url);
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        let request = request.body(Full::new(body.unwrap_or_default())).with_context(|| format!("bad URL {url}"))?;
        self.pool.request(request).await.with_context(|| format!("{url}: no answer"))
    }
}
