//! Clients below the level of an ordinary HTTP library: bytes on a connection, and HTTP/2 with trailers.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{HeaderMap, Request};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// How long an exchange may take.
const LIMIT: Duration = Duration::from_secs(30);

/// An answer as it came: status, headers, body.
pub(super) struct Answer {
    /// The status code.
    pub(super) status: u16,
    /// Header lines in lower case (HTTP/1), or `name: value` lines (HTTP/2).
    pub(super) head: String,
    /// The body, chunked framing taken off.
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The body as text.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A header's value.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
    }
}

/// An HTTP/1.1 connection on which bytes are written by hand.
pub(super) struct Raw(TcpStream);

impl Raw {
    /// Connects.
    pub(super) async fn connect(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true).context("cannot set TCP_NODELAY")?;
        Ok(Self(stream))
    }

    /// Writes.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        tokio::time::timeout(LIMIT, self.0.write_all(bytes)).await.context("nobody reads")?.context("cannot write")
    }

    /// Reads until at least `count` bytes holding `text` came.
    pub(super) async fn until(&mut self, text: &str) -> Result<String> {
        let mut have = Vec::new();
        let read = async {
            while !String::from_utf8_lossy(&have).contains(text) {
                if self.0.read_buf(&mut have).await.context("cannot read")? == 0 {
                    anyhow::bail!("the connection ended before {text:?} came");
                }
            }
            Ok(())
        };
        tokio::time::timeout(LIMIT, read).await.with_context(|| format!("{text:?} did not come"))??;
        Ok(String::from_utf8_lossy(&have).into_owned())
    }

    /// Reads to the end of the connection, which the request must have asked to be closed.
    pub(super) async fn rest(mut self) -> Result<Answer> {
        let mut all = Vec::new();
        let read = tokio::time::timeout(LIMIT, self.0.read_to_end(&mut all)).await;
        read.context("no end came")?.context("cannot read")?;
        let end = all.windows(4).position(|window| window == b"\r\n\r\n").context("an answer without headers")?;
        let head = String::from_utf8_lossy(&all[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("an answer without status")?;
        let body = &all[end + 4..];
        let chunked = head.lines().any(|line| line.starts_with("transfer-encoding:") && line.contains("chunked"));
        let body = if chunked { unchunked(body)? } else { body.to_vec() };
        Ok(Answer { status, head, body })
    }
}

/// The headers of a JSON request, the body's framing left out.
pub(super) fn head(path: &str, more: &str) -> String {
    format!("POST {path} HTTP/1.1\r\nhost: e2e\r\ncontent-type: application/json\r\nconnection: close\r\n{more}\r\n")
}

fn unchunked(mut rest: &[u8]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = rest.iter().position(|&byte| byte == b'\n').context("a chunk without a size")?;
        let size = std::str::from_utf8(&rest[..line]).context("a size that is no text")?;
        let size = usize::from_str_radix(size.trim(), 16).context("a size that is no number")?;
        if size == 0 {
            return Ok(body);
        }
        let chunk = rest.get(line + 1..line + 1 + size).context("a chunk that is cut off")?;
        body.extend_from_slice(chunk);
        rest = rest.get(line + 1 + size + 2..).context("a chunk without an end")?;
    }
}

/// One request over HTTP/2 in clear text, with request trailers where given.
pub(super) async fn h2c(address: SocketAddr, path: &str, body: Bytes, trailers: Option<HeaderMap>) -> Result<Answer> {
    let exchange = async {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (mut sender, connection) = handshake.context("no HTTP/2")?;
        let connection = tokio::spawn(connection);
        let body = Full::new(body).with_trailers(std::future::ready(trailers.map(Ok)));
        let request = Request::post(format!("http://e2e{path}")).header("content-type", "application/json");
        let response =
            sender.send_request(request.body(body).context("a fixed request")?).await.context("no answer")?;
        let status = response.status().as_u16();
        let lines =
            response.headers().iter().map(|(name, value)| format!("{name}: {}\n", value.to_str().unwrap_or("")));
        let head = lines.collect();
        let body = response.into_body().collect().await.context("the body broke off")?.to_bytes().to_vec();
        connection.abort();
        Ok(Answer { status, head, body })
    };
    tokio::time::timeout(LIMIT, exchange).await.context("no end came")?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunked_framing_is_taken_off() {
        assert_eq!(unchunked(b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n").unwrap(), b"abcde");
        assert!(unchunked(b"5\r\nabc").is_err());
    }
}
