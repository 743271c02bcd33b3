//! Authorities and certificates of a test, and TLS clients that take note of what they were shown.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::process::write;

/// A certificate and its key, in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// An authority.
pub(crate) struct Authority {
    pub(crate) certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let certificate = params.self_signed(&key).expect("a certificate").pem();
        Self { certificate, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn issue(&self, name: &str) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(DnType::CommonName, name);
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        Pair { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

impl Pair {
    /// The certificate as it is shown in a handshake.
    pub(crate) fn shown(&self) -> Vec<u8> {
        CertificateDer::from_pem_slice(self.certificate.as_bytes()).expect("a certificate").to_vec()
    }

    /// Writes `tls.crt` and `tls.key`.
    pub(crate) fn write(&self, folder: &Path) {
        write(folder, "tls.crt", &self.certificate);
        write(folder, "tls.key", &self.key);
    }
}

/// What a client offers.
#[derive(Clone, Default)]
pub(crate) struct Offer {
    pub(crate) own: Option<Pair>,
    /// Versions; none: 1.2 and 1.3.
    pub(crate) versions: Vec<&'static SupportedProtocolVersion>,
    pub(crate) protocols: Vec<&'static str>,
}

/// Takes any certificate: that of the picker is signed by nobody.
#[derive(Debug)]
struct Anybody(CryptoProvider);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Connects, and proves the connection: where a client certificate is refused, TLS 1.3 tells only afterwards.
pub(crate) async fn connect(address: SocketAddr, offer: &Offer) -> std::io::Result<TlsStream<TcpStream>> {
    let versions = if offer.versions.is_empty() {
        vec![&rustls::version::TLS12, &rustls::version::TLS13]
    } else {
        offer.versions.clone()
    };
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&versions)
        .expect("versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(default_provider())));
    let mut config = match &offer.own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("a key");
            builder.with_client_auth_cert(vec![own.shown().into()], key).expect("a pair")
        }
    };
    config.alpn_protocols = offer.protocols.iter().map(|p| p.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("epp.test").expect("a name");
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// The certificate that the server showed.
pub(crate) fn shown(stream: &TlsStream<TcpStream>) -> Vec<u8> {
    stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).expect("a certificate").to_vec()
}
