//! HTTP/1.1 as a scraper speaks it, over any connection.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Asks on a connection that is then closed.
pub(crate) async fn ask_on<S>(mut stream: S, method: &str, path: &str, headers: &str) -> std::io::Result<Answer>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let request = format!("{method} {path} HTTP/1.1\r\nhost: test\r\n{headers}connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await?;
    let all = String::from_utf8_lossy(&all).into_owned();
    let (head, body) = all.split_once("\r\n\r\n").ok_or(std::io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    let content_type = head
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-type"))
        .map_or_else(String::new, |(_, value)| value.trim().to_owned());
    Ok(Answer { status, content_type, head: head.to_ascii_lowercase(), body: body.to_owned() })
}

/// Asks without TLS.
pub(crate) async fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let stream = TcpStream::connect(address).await.expect("it listens");
    ask_on(stream, method, path, headers).await.expect("it answers")
}
