//! Opening a connection to an engine.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use pointsman_fleet::{EndpointMeta, Scheme};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::{Kept, Sender};
use crate::tls::{self, EngineTrust};

/// Opens connections, plain or TLS.
#[derive(Debug)]
pub(crate) struct Connector {
    timeout: Duration,
    trust: EngineTrust,
    /// Made when the first `https://` endpoint is spoken to: reading the system's certificates takes a while.
    tls: OnceLock<Result<Arc<ClientConfig>, String>>,
}

impl Connector {
    pub(crate) fn new(timeout: Duration, trust: EngineTrust) -> Self {
        Self { timeout, trust, tls: OnceLock::new() }
    }

    /// A fresh connection to a port of an endpoint, ready for a request.
    pub(crate) async fn connect(&self, meta: &EndpointMeta, port: u16) -> io::Result<Sender> {
        match tokio::time::timeout(self.timeout, self.open(meta, port)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("no connection within {} ms", self.timeout.as_millis()),
            )),
        }
    }

    async fn open(&self, meta: &EndpointMeta, port: u16) -> io::Result<Sender> {
        let host = meta.address.trim_start_matches('[').trim_end_matches(']');
        // An address needs no resolver, and so no thread of the blocking pool.
        let stream = match host.parse::<IpAddr>() {
            Ok(ip) => TcpStream::connect((ip, port)).await?,
            Err(_) => TcpStream::connect((host, port)).await?,
        };
        stream.set_nodelay(true)?;
        match meta.scheme {
            Scheme::Http => handshake(TokioIo::new(stream)).await,
            Scheme::Https => {
                let config = self.tls.get_or_init(|| tls::engine_config(&self.trust));
                let config = config.as_ref().map_err(|e| io::Error::other(e.clone()))?;
                let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
                handshake(TokioIo::new(TlsConnector::from(Arc::clone(config)).connect(name, stream).await?)).await
            }
        }
    }
}

async fn handshake<T: Read + Write + Unpin + Send + 'static>(io: T) -> io::Result<Sender> {
    let (sender, connection) = http1::handshake::<_, Kept>(io).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "engine connection ended");
        }
    });
    Ok(sender)
}
