//! TLS towards engines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// How engines reached over TLS are verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Accept any certificate.
    pub insecure_skip_verify: bool,
    /// Authorities to trust, a PEM file; without one, those of the system.
    pub ca: Option<PathBuf>,
    /// Client certificate and its key, PEM files.
    pub client_cert: Option<(PathBuf, PathBuf)>,
}

/// Why TLS towards engines cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or holds no PEM of the kind wanted.
    #[error("{file}: {reason}")]
    File {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Certificate and key do not go together, or cannot be used.
    #[error("client certificate cannot be used: {0}")]
    Client(rustls::Error),
    /// The system trusts nobody.
    #[error("this system has no trusted authorities; name a file of them")]
    NoRoots,
}

/// A TLS set-up, ready for use. Cloning shares it.
#[derive(Clone, Debug)]
pub struct TlsClient(pub(crate) Arc<ClientConfig>);

impl TlsClient {
    /// Reads the files and makes the set-up.
    ///
    /// # Errors
    /// When a file cannot be read or used, or when the system's authorities are wanted and there are none.
    pub fn new(options: &TlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3");
        let builder = if options.insecure_skip_verify {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        } else {
            builder.with_root_certificates(roots(options.ca.as_deref())?)
        };
        let mut config = match &options.client_cert {
            None => builder.with_no_client_auth(),
            Some((cert, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|e| file(key, e))?;
                builder.with_client_auth_cert(certificates(cert)?, key).map_err(TlsError::Client)?
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Accepts no certificate: for a system without authorities whose engines are not reached over TLS, or not yet.
    #[must_use]
    pub fn trusting_nobody() -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS 1.2 and 1.3")
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        Self(Arc::new(config))
    }

    /// Accepts any certificate.
    #[must_use]
    pub fn insecure() -> Self {
        let options = TlsOptions { insecure_skip_verify: true, ..TlsOptions::default() };
        Self::new(&options).expect("no file is read")
    }

    /// The set-up, for a connection made elsewhere: HTTP/1.1 by ALPN.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

fn file(path: &Path, reason: impl std::fmt::Display) -> TlsError {
    TlsError::File { file: path.to_owned(), reason: reason.to_string() }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(file(path, "no certificate in it")),
        Ok(found) => Ok(found),
        Err(e) => Err(file(path, e)),
    }
}

fn roots(ca: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut store = RootCertStore::empty();
    match ca {
        Some(path) => {
            for certificate in certificates(path)? {
                store.add(certificate).map_err(|e| file(path, e))?;
            }
        }
        None => {
            store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            if store.is_empty() {
                return Err(TlsError::NoRoots);
            }
        }
    }
    Ok(store)
}

/// Takes any certificate, but still wants proof that the peer holds its key.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
