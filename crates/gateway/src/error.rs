//! Why a gateway does not start.

use std::path::PathBuf;

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A PEM file cannot be read, or holds nothing of the kind wanted.
    #[error("cannot use `{}` as {what}: {reason}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// What it should hold.
        what: &'static str,
        /// What the reader said.
        reason: String,
    },
    /// Certificate and key do not fit together, or are of a kind that is not supported.
    #[error("TLS cannot be served with this certificate and key: {0}")]
    Tls(#[from] rustls::Error),
}
