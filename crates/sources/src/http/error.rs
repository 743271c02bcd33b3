//! Why a page could not be fetched, in words for the person who reads an endpoint's row.

use std::io;
use std::time::Duration;

/// Why a page could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No connection.
    #[error("{}", in_words(.0))]
    Connect(io::Error),
    /// Connected, but no secure session.
    #[error("TLS handshake failed: {0}")]
    Tls(io::Error),
    /// The connection ended, or what came was not HTTP.
    #[error("connection broke: {0}")]
    Broken(hyper::Error),
    /// An answer with another status than 200.
    #[error("status {0}")]
    Status(u16),
    /// More bytes than are accepted.
    #[error("answer larger than {0} bytes")]
    TooLarge(usize),
    /// Too many large answers under way at once.
    #[error("too many large answers at once")]
    Crowded,
    /// The time allowed passed.
    #[error("no answer within {}", seconds(.0))]
    Late(Duration),
}

fn seconds(of: &Duration) -> String {
    if of.subsec_millis() == 0 { format!("{} s", of.as_secs()) } else { format!("{} ms", of.as_millis()) }
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset".to_owned(),
        io::ErrorKind::HostUnreachable => "host unreachable".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}
