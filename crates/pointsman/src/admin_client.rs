//! Asking a running Pointsman through its admin listener.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::failure::{Exit, Failure};
use crate::terminal::clean;

const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_ANSWER: usize = 256 * 1024 * 1024;

/// Which Pointsman is meant.
#[derive(Args, Clone, Debug)]
pub(crate) struct Target {
    /// Admin listener of the running Pointsman
    #[arg(long = "admin", env = "POINTSMAN_ADMIN", default_value = "127.0.0.1:9090", value_name = "ADDR")]
    address: String,
    /// Token that the listener asks for
    #[arg(long, env = "POINTSMAN_ADMIN_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    admin_token: Option<String>,
}

/// An answer that is not an error.
pub(crate) struct Answer(pub(crate) Bytes);

impl Target {
    pub(crate) fn address(&self) -> &str {
        let address = self.address.strip_prefix("http://").unwrap_or(&self.address);
        address.trim_end_matches('/')
    }

    /// `GET`.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.ask(Method::GET, path).await
    }

    /// `POST` without a body.
    pub(crate) async fn post(&self, path: &str) -> Result<Answer, Failure> {
        self.ask(Method::POST, path).await
    }

    async fn ask(&self, method: Method, path: &str) -> Result<Answer, Failure> {
        match tokio::time::timeout(TIMEOUT, self.exchange(method, path)).await {
            Ok(answer) => answer,
            Err(_) => Err(Failure::new(format!("no answer from {} within {TIMEOUT:?}", self.address()))
                .next("look at the log of that Pointsman; is the address right (--admin)?")),
        }
    }

    async fn exchange(&self, method: Method, path: &str) -> Result<Answer, Failure> {
        let address = self.address();
        let unreachable = |error: &dyn std::fmt::Display| {
            Failure::new(format!("cannot reach a running Pointsman at {address}"))
                .why(error)
                .next("start one with `pointsman serve`, or name its admin listener with --admin HOST:PORT")
        };
        let stream = TcpStream::connect(address).await.map_err(|e| unreachable(&e))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| unreachable(&e))?;
        let driver = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, address);
        if let Some(token) = &self.admin_token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|e| Failure::usage(format!("cannot ask {} for {}", clean(address), clean(path))).why(e))?;
        let reply = sender.send_request(request).await.map_err(|e| unreachable(&e))?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), MAX_ANSWER).collect().await.map_err(|e| unreachable(&e))?.to_bytes();
        driver.abort();
        if status.is_success() { Ok(Answer(body)) } else { Err(self.refused(status, &body)) }
    }

    fn refused(&self, status: StatusCode, body: &[u8]) -> Failure {
        let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
        let message = value["error"]["message"].as_str().map_or_else(|| format!("status {status}"), clean);
        let failure = Failure::new(message.clone());
        match status {
            StatusCode::NOT_FOUND if value["error"].is_object() => failure.exit(Exit::No),
            StatusCode::UNAUTHORIZED => failure.next("give it with --admin-token, or in POINTSMAN_ADMIN_TOKEN"),
            StatusCode::BAD_REQUEST | StatusCode::CONFLICT => failure.exit(Exit::Usage),
            _ if value["error"].is_object() => failure,
            _ => Failure::new(format!("{} does not answer like an admin listener", self.address()))
                .why(message)
                .next("name it with --admin: 127.0.0.1:9090 by default with `serve`, 127.0.0.1:9091 with `epp`"),
        }
    }
}

impl Answer {
    /// Reads the answer as what it should be.
    pub(crate) fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.0).map_err(|error| {
            Failure::new("the answer of the admin listener cannot be read")
                .why(error)
                .next("is it a Pointsman, and of the same version as this command?")
        })
    }
}

/// A name as one segment of a path.
pub(crate) fn segment(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for b in name.bytes() {
        if b.is_ascii_alphanumeric() || b"-._~:".contains(&b) {
            out.push(b as char);
        } else {
            out.push_str(&format!("%{b:02X}"));
        }
    }
    out
}

/// Runs one command's conversation on this thread.
pub(crate) fn converse<T>(talk: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| Failure::new("cannot start the runtime").why(e))?.block_on(talk)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_one_segment() {
        assert_eq!(segment("default/A b?"), "default%2FA%20b%3F");
        assert_eq!(segment("127.0.0.1:8000"), "127.0.0.1:8000");
    }
}
