//! TLS on both sides.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pointsman_sources::TlsClient;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::{GatewayError, ServerTls};

fn pem(path: &Path, what: &'static str, reason: impl ToString) -> GatewayError {
    GatewayError::Pem { path: path.to_owned(), what, reason: reason.to_string() }
}

fn certificates(path: &Path, what: &'static str) -> Result<Vec<CertificateDer<'static>>, GatewayError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|e| pem(path, what, e))?.collect();
    match all {
        Ok(all) if all.is_empty() => Err(pem(path, what, "no certificate in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(pem(path, what, error)),
    }
}

/// The listener's side: HTTP/2 or HTTP/1.1 by ALPN.
pub(crate) fn server_config(files: &ServerTls) -> Result<ServerConfig, GatewayError> {
    let chain = certificates(&files.cert, "a certificate chain")?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(|e| pem(&files.key, "a private key", e))?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Whom the gateway believes when an engine shows a certificate.
#[derive(Debug)]
pub(crate) enum EngineTrust {
    /// The system's authorities.
    System,
    /// These authorities.
    Authorities(RootCertStore),
    /// Anyone.
    Anyone,
}

impl EngineTrust {
    /// From the settings; `insecure` wins.
    pub(crate) fn new(ca: Option<&PathBuf>, insecure: bool) -> Result<Self, GatewayError> {
        let what = "certificates of authorities";
        match ca {
            _ if insecure => Ok(Self::Anyone),
            None => Ok(Self::System),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path, what)? {
                    roots.add(certificate).map_err(|e| pem(path, what, e))?;
                }
                Ok(Self::Authorities(roots))
            }
        }
    }
}

/// The engines' side. Reads the system's certificates, if those are wanted.
pub(crate) fn engine_config(trust: &EngineTrust) -> Result<Arc<ClientConfig>, String> {
    let roots = match trust {
        EngineTrust::Anyone => return Ok(TlsClient::insecure().config()),
        EngineTrust::Authorities(roots) => roots.clone(),
        EngineTrust::System => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if roots.is_empty() {
                return Err("the system has no certificates of authorities; name a file of them".into());
            }
            roots
        }
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
