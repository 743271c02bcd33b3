//! Opening connections.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use pointsman_fleet::{EndpointMeta, Scheme};
use pointsman_plugins::data_layer::source::Host;
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

/// Where a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageAt {
    /// Which address of the endpoint.
    pub host: Host,
    /// Port, where it is not that of the address.
    pub port: Option<u16>,
    /// Whether over TLS; `None`: as the endpoint itself is reached.
    pub secure: Option<bool>,
}

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
            host: bare(&meta.address),
            port: meta.port,
            authority: meta.host_port().to_owned(),
            tls: (meta.scheme == Scheme::Https).then(|| tls.clone()),
        }
    }

    /// A server that is no endpoint.
    pub(crate) fn at(host: &str, port: u16, tls: Option<TlsClient>) -> Self {
        let authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        Self { host: host.to_owned(), port, authority, tls }
    }

    /// Where an endpoint has a page. `None`: nowhere, as the address that it would be at is not known.
    pub(crate) fn of_page(meta: &EndpointMeta, at: &PageAt, tls: &TlsClient) -> Option<Self> {
        let mut peer = Self::api(meta, tls);
        match at.host {
            Host::Api => {}
            Host::Metrics => {
                if let Some((host, port)) = meta.metrics_address.as_deref().and_then(|a| a.rsplit_once(':')) {
                    peer.host = bare(host);
                    peer.port = port.parse().unwrap_or(peer.port);
                }
            }
            Host::Node => peer.host = bare(meta.node_address.as_deref()?),
        }
        peer.port = at.port.unwrap_or(peer.port);
        let Self { host, port, .. } = &peer;
        peer.authority = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        if let Some(secure) = at.secure {
            peer.tls = secure.then(|| tls.clone());
        }
        Some(peer)
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

/// An address without the brackets that an IPv6 one may have.
fn bare(address: &str) -> String {
    address.trim_start_matches('[').trim_end_matches(']').to_owned()
}

#[cfg(test)]
mod tests {
    use pointsman_core::EndpointName;

    use super::*;

    fn meta(address: &str) -> EndpointMeta {
        EndpointMeta::new(EndpointName::new("default", "a"), address, 8000)
    }

    #[test]
    fn a_page_is_where_host_port_and_scheme_say() {
        let tls = TlsClient::insecure();
        let mut elsewhere = meta("10.0.0.7");
        elsewhere.metrics_address = Some("[fd00::1]:9000".into());
        elsewhere.node_address = Some("10.9.9.9".into());
        for (meta, host, port, secure, want) in [
            (meta("10.0.0.7"), Host::Metrics, None, None, Some(("10.0.0.7:8000", false))),
            (meta("10.0.0.7"), Host::Metrics, Some(9100), Some(true), Some(("10.0.0.7:9100", true))),
            (meta("fd00::7"), Host::Metrics, Some(9100), None, Some(("[fd00::7]:9100", false))),
            (elsewhere.clone(), Host::Metrics, None, None, Some(("[fd00::1]:9000", false))),
            (elsewhere.clone(), Host::Metrics, Some(1), None, Some(("[fd00::1]:1", false))),
            (elsewhere.clone(), Host::Api, Some(9400), None, Some(("10.0.0.7:9400", false))),
            (elsewhere, Host::Node, Some(9400), None, Some(("10.9.9.9:9400", false))),
            (meta("10.0.0.7"), Host::Node, Some(9400), None, None),
        ] {
            let peer = Peer::of_page(&meta, &PageAt { host, port, secure }, &tls);
            assert_eq!(peer.as_ref().map(|p| (p.authority.as_str(), p.tls.is_some())), want);
            assert!(peer.is_none_or(|p| !p.host.contains('[')));
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
