//! Opening connections.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pointsman_fleet::{EndpointMeta, Scheme};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use crate::http::{FetchError, TlsClient};

/// Connections that may be opening at once.
const OPENING: usize = 128;
/// How long an attempt may occupy its place. An address that swallows packets waits on without one, so that many such addresses cannot keep
/// others from connecting.
const PLACE_FOR: Duration = Duration::from_millis(100);

/// Bounds the burst of connections when many endpoints arrive at once.
#[derive(Debug)]
pub(crate) struct Connects(Semaphore);

impl Default for Connects {
    fn default() -> Self {
        Self(Semaphore::new(OPENING))
    }
}

impl Connects {
    async fn run<T>(&self, attempt: impl Future<Output = T>) -> T {
        let place = self.0.acquire().await;
        let mut attempt = pin!(attempt);
        match tokio::time::timeout(PLACE_FOR, attempt.as_mut()).await {
            Ok(done) => done,
            Err(_) => {
                drop(place);
                attempt.await
            }
        }
    }
}

/// A byte stream, plain or secured.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Whom to ask.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    host: String,
    port: u16,
    /// As the `host` header says it.
    pub(crate) authority: String,
    tls: Option<TlsClient>,
}

impl Peer {
    /// The API address of an endpoint, spoken to as its scheme says.
    pub(crate) fn api(meta: &EndpointMeta, tls: &TlsClient) -> Self {
        Self {
            host: meta.address.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: meta.port,
            authority: meta.host_port().to_owned(),
            tls: (meta.scheme == Scheme::Https).then(|| tls.clone()),
        }
    }

    /// Where an endpoint shows its metrics; `port` overrides the port, `secure` the scheme.
    pub(crate) fn metrics(meta: &EndpointMeta, port: Option<u16>, secure: Option<bool>, tls: &TlsClient) -> Self {
        let mut peer = Self::api(meta, tls);
        if let Some((host, at)) = meta.metrics_address.as_deref().and_then(|a| a.rsplit_once(':')) {
            peer.host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
            peer.port = at.parse().unwrap_or(peer.port);
        }
        peer.port = port.unwrap_or(peer.port);
        let Self { host, port, .. } = &peer;
        peer.authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        if let Some(secure) = secure {
            peer.tls = secure.then(|| tls.clone());
        }
        peer
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self, connects: &Connects) -> Result<Box<dyn Stream>, FetchError> {
        let stream = connects.run(TcpStream::connect((self.host.as_str(), self.port))).await;
        let stream = stream.map_err(FetchError::Connect)?;
        // A request is one small write: there is nothing to gather.
        let _ = stream.set_nodelay(true);
        let Some(TlsClient(config)) = &self.tls else { return Ok(Box::new(stream)) };
        let name = ServerName::try_from(self.host.clone()).map_err(|e| FetchError::Tls(io::Error::other(e)))?;
        let secured = tokio_rustls::TlsConnector::from(Arc::clone(config)).connect(name, stream).await;
        Ok(Box::new(secured.map_err(FetchError::Tls)?))
    }
}

#[cfg(test)]
mod tests {
    use pointsman_core::EndpointName;

    use super::*;

    fn meta(address: &str) -> EndpointMeta {
        EndpointMeta::new(EndpointName::new("default", "a"), address, 8000)
    }

    #[test]
    fn the_metrics_page_is_where_override_port_and_scheme_say() {
        let tls = TlsClient::insecure();
        let mut elsewhere = meta("10.0.0.7");
        elsewhere.metrics_address = Some("[fd00::1]:9000".into());
        for (meta, port, secure, want, want_tls) in [
            (meta("10.0.0.7"), None, None, "10.0.0.7:8000", false),
            (meta("10.0.0.7"), Some(9100), Some(true), "10.0.0.7:9100", true),
            (meta("fd00::7"), Some(9100), None, "[fd00::7]:9100", false),
            (elsewhere.clone(), None, None, "[fd00::1]:9000", false),
            (elsewhere, Some(1), None, "[fd00::1]:1", false),
        ] {
            let peer = Peer::metrics(&meta, port, secure, &tls);
            assert_eq!((peer.authority.as_str(), peer.tls.is_some()), (want, want_tls));
            assert!(!peer.host.contains('['));
        }
    }

    #[tokio::test]
    async fn addresses_that_swallow_packets_do_not_keep_others_from_connecting() {
        let connects = Arc::new(Connects::default());
        for _ in 0..OPENING * 3 {
            let connects = Arc::clone(&connects);
            tokio::spawn(async move { connects.run(std::future::pending::<()>()).await });
        }
        tokio::task::yield_now().await;
        let begun = tokio::time::Instant::now();
        connects.run(async {}).await;
        assert!(begun.elapsed() <= PLACE_FOR * 8, "{:?}", begun.elapsed());
    }
}
