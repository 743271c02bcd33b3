//! Engines as far as a picker under load sees them: a metrics page each, at next to no cost.
//!
//! One thread and one listener play up to 500 engines: all of 127.0.0.0/8 is this machine, so each engine has its own
//! address and all share a port. The page is a real one, 68 KB, of a vLLM that is busy.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::workspace;

const PAGE: &str = "testdata/fixtures/vllm/metrics/under-load-lora.prom";

/// The answer to everything but the metrics page: an empty-ish 200, which health checks and model lists can read.
const SMALL: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 41\r\n\r\n{\"object\":\"list\",\"data\":[{\"id\":\"tiny\"}]}\n";

/// Engine number `engine`: 127.0.1.1, 127.0.1.2 and so on.
pub(super) fn address(engine: u32, port: u16) -> SocketAddr {
    let low = |number: u32| u8::try_from(number).expect("at most 500 engines");
    SocketAddrV4::new(Ipv4Addr::new(127, 0, low(1 + engine / 250), low(1 + engine % 250)), port).into()
}

/// The running engines; their thread ends with the process.
pub(super) struct Engines {
    /// The port they share.
    pub(super) port: u16,
    pages: Arc<AtomicU64>,
}

impl Engines {
    /// Starts them, on the processor of the calling thread.
    pub(super) fn start() -> Result<Self> {
        let path = workspace::root().join(PAGE);
        let page = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut answer = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\n\r\n",
            page.len()
        )
        .into_bytes();
        answer.extend_from_slice(&page);
        let answer: Arc<[u8]> = answer.into();
        let listener = std::net::TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).context("no free port for engines")?;
        listener.set_nonblocking(true).context("cannot make the listener asynchronous")?;
        let port = listener.local_addr().context("a bound listener has an address")?.port();
        let pages = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&pages);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("no runtime")?;
        let serve = async move {
            let listener = TcpListener::from_std(listener).expect("the listener is non-blocking");
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(answer_requests(stream, Arc::clone(&answer), Arc::clone(&counted)));
            }
        };
        let thread = std::thread::Builder::new().name("engines".into());
        thread.spawn(move || runtime.block_on(serve)).context("no thread for engines")?;
        Ok(Self { port, pages })
    }

    /// Pages served so far.
    pub(super) fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }
}

async fn answer_requests(mut stream: TcpStream, page: Arc<[u8]>, pages: Arc<AtomicU64>) {
    let _ = stream.set_nodelay(true);
    let mut request = [0; 2048];
    let mut have = 0;
    while let Ok(read @ 1..) = stream.read(&mut request[have..]).await {
        have += read;
        if !request[..have].ends_with(b"\r\n\r\n") {
            continue;
        }
        let is_page = request.starts_with(b"GET /metrics");
        have = 0;
        if stream.write_all(if is_page { &page } else { SMALL }).await.is_err() {
            return;
        }
        pages.fetch_add(u64::from(is_page), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_an_address_of_its_own() {
        let all: std::collections::HashSet<_> = (0..500).map(|engine| address(engine, 8000)).collect();
        assert_eq!(all.len(), 500);
        assert_eq!(address(0, 8000).to_string(), "127.0.1.1:8000");
        assert_eq!(address(499, 8000).to_string(), "127.0.2.250:8000");
    }

    #[test]
    fn the_small_answer_is_as_long_as_it_says() {
        let text = std::str::from_utf8(SMALL).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(text.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
