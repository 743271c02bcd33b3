//! What can be set, with its defaults.

use std::path::PathBuf;
use std::time::Duration;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

/// Settings of a [`Gateway`](crate::Gateway). Every bound and every time-out of it is here; [`Default`] gives the documented values.
#[derive(Clone, Debug)]
pub struct GatewayOptions {
    /// Further endpoints tried when one fails before the first byte of its response. Default 2.
    pub retries: u32,
    /// Whether responses carry `x-pointsman-endpoint` and `x-pointsman-decision`. Default true.
    pub decision_headers: bool,
    /// Largest request body, bytes; beyond it 413. Default 64 MiB.
    pub max_body_bytes: u64,
    /// Request bytes held at the same time over all requests; beyond it 503. Default 1 GiB.
    pub buffer_budget_bytes: u64,
    /// Largest request head, bytes; beyond it 431, as beyond 100 header lines. Default 64 KiB.
    pub max_header_bytes: usize,
    /// Connections served at the same time; further ones wait to be accepted. Default 16,384.
    pub max_connections: usize,
    /// Time from the first byte of a request's head to its last, from the start of a connection to its first request, for a TLS handshake, and for a
    /// client to go when its connection was idle for too long; beyond it the connection is closed. Default 10 s.
    pub header_read_timeout: Duration,
    /// Longest silence inside a request body; beyond it 408. Default 60 s.
    pub body_read_timeout: Duration,
    /// How long a client connection may be idle between requests. Default 180 s.
    pub keep_alive_timeout: Duration,
    /// Time to connect to an engine, TLS included. Default 2 s.
    pub connect_timeout: Duration,
    /// Time from sending a request to the head of its response; beyond it 504. Default 600 s.
    pub response_header_timeout: Duration,
    /// Silence inside a response after which it counts as broken, noticed after at most twice this. Also how long a client may take nothing of a response
    /// that is there; beyond it the client counts as gone. Default 600 s.
    pub response_idle_timeout: Duration,
    /// How long an engine connection is kept for the next request. Default 60 s.
    pub engine_keep_alive_timeout: Duration,
    /// How long shutdown waits for running responses. Default 30 s.
    pub drain_timeout: Duration,
    /// Time for `GET /v1/models` to collect the engines' lists. Default 2 s.
    pub models_timeout: Duration,
    /// Serves TLS (with HTTP/2 by ALPN) instead of plain HTTP. Default none.
    pub tls: Option<ServerTls>,
    /// PEM file of the authorities that sign the certificates of `https://` engines. Default: the system's.
    pub engine_ca: Option<PathBuf>,
    /// Accepts any certificate of an `https://` engine. Default false.
    pub engine_insecure: bool,
    /// When a failing endpoint is put aside.
    pub ejection: EjectionOptions,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        Self {
            retries: 2,
            decision_headers: true,
            max_body_bytes: 64 * MIB as u64,
            buffer_budget_bytes: 1024 * MIB as u64,
            max_header_bytes: 64 * KIB,
            max_connections: 16_384,
            header_read_timeout: Duration::from_secs(10),
            body_read_timeout: Duration::from_secs(60),
            keep_alive_timeout: Duration::from_secs(180),
            connect_timeout: Duration::from_secs(2),
            response_header_timeout: Duration::from_secs(600),
            response_idle_timeout: Duration::from_secs(600),
            engine_keep_alive_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(30),
            models_timeout: Duration::from_secs(2),
            tls: None,
            engine_ca: None,
            engine_insecure: false,
            ejection: EjectionOptions::default(),
        }
    }
}

/// Certificate and key of the listener, PEM files.
#[derive(Clone, Debug)]
pub struct ServerTls {
    /// Certificate chain, the server's own first.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

/// When passive ejection takes an endpoint out, and for how long.
///
/// An endpoint is out at once when it cannot be connected to, and after `failures` answers 502, 503 or 504 (or resets) without a better one
/// between. It comes back half-open: one request is let through, whose outcome decides. Never more than half of the fleet is out.
#[derive(Clone, Copy, Debug)]
pub struct EjectionOptions {
    /// Failures in a row that eject. Default 5.
    pub failures: u32,
    /// Length of the first ejection; each further one without a success between is twice as long. Default 10 s.
    pub base: Duration,
    /// Longest ejection. Default 5 min.
    pub max: Duration,
    /// How often an endpoint that refused connections is tried with an empty TCP connection, which ends its ejection early. Default 500 ms.
    pub probe_interval: Duration,
}

impl Default for EjectionOptions {
    fn default() -> Self {
        Self {
            failures: 5,
            base: Duration::from_secs(10),
            max: Duration::from_secs(300),
            probe_interval: Duration::from_millis(500),
        }
    }
}
