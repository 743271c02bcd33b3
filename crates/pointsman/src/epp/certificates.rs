//! TLS of the picker's own ports: certificates from a directory, followed when they change, or one that signs itself (request-lifecycle 6.3).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};

use crate::failure::{Exit, Failure};

/// How often a followed directory is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// A pair is taken when it was the same at two looks this far apart: it may be half written.
const SETTLE: Duration = Duration::from_millis(250);

/// Which TLS is spoken.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    client_ca: Option<PathBuf>,
    protocols: Vec<Vec<u8>>,
}

/// Suites of Go that are not here: they are no longer thought safe. Naming them is no error, and has no effect.
const UNSAFE_SUITES: &[&str] = &[
    "TLS_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
];

fn wrong(flag: &str, why: impl std::fmt::Display, next: &str) -> Failure {
    Failure::new(format!("{flag} cannot be used")).why(why).next(next).exit(Exit::No)
}

impl Policy {
    /// From `--tls-min-version`, `--tls-cipher-suites` and `--client-ca-file`.
    pub(super) fn new(least: &str, suites: &[String], client_ca: Option<&Path>) -> Result<Self, Failure> {
        let versions = match least {
            // 1.0 and 1.1 are not spoken at all.
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => {
                vec![&rustls::version::TLS13, &rustls::version::TLS12]
            }
            "VersionTLS13" => vec![&rustls::version::TLS13],
            other => {
                return Err(wrong(
                    "--tls-min-version",
                    format!("`{other}` is unknown"),
                    "write VersionTLS12 or VersionTLS13",
                ));
            }
        };
        let mut provider = ring::default_provider();
        if !suites.is_empty() {
            let mut wanted = Vec::new();
            for name in suites {
                match provider.cipher_suites.iter().find(|suite| names(name, suite)) {
                    Some(suite) => wanted.push(*suite),
                    None if UNSAFE_SUITES.contains(&name.as_str()) => {
                        tracing::warn!(suite = name, "this cipher suite is no longer thought safe and is not offered");
                    }
                    None => {
                        let why = format!("`{name}` is unknown");
                        return Err(wrong(
                            "--tls-cipher-suites",
                            why,
                            "write Go's names, such as TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
                        ));
                    }
                }
            }
            // The flag is about TLS 1.2; suites of 1.3 cannot be chosen.
            let newest = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_some());
            provider.cipher_suites =
                newest.copied().chain(wanted.into_iter().filter(|s| s.tls13().is_none())).collect();
        }
        let versions = if provider.cipher_suites.iter().all(|s| s.tls13().is_some()) {
            tracing::warn!("no cipher suite of TLS 1.2 is left: only TLS 1.3 is spoken");
            vec![&rustls::version::TLS13]
        } else {
            versions
        };
        Ok(Self {
            provider: Arc::new(provider),
            versions,
            client_ca: client_ca.map(Path::to_owned),
            protocols: vec![b"h2".to_vec()],
        })
    }

    /// For a port that speaks HTTP/1.1.
    pub(super) fn http1(mut self) -> Self {
        self.protocols = vec![b"http/1.1".to_vec()];
        self
    }

    fn config(
        &self,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Arc<ServerConfig>, String> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(|e| e.to_string())?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|e| format!("{}: {e}", path.display()))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider))
                    .build()
                    .map_err(|e| format!("{}: {e}", path.display()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|e| e.to_string())?;
        config.alpn_protocols.clone_from(&self.protocols);
        Ok(Arc::new(config))
    }

    /// A certificate made now, for nobody to verify.
    pub(super) fn self_signed(&self) -> Result<Certificates, Failure> {
        let made = || -> Result<Arc<ServerConfig>, String> {
            let key = rcgen::KeyPair::generate().map_err(|e| e.to_string())?;
            let mut params = rcgen::CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(rcgen::DnType::OrganizationName, "Inference Ext");
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
            let today = jiff::tz::Offset::UTC.to_datetime(jiff::Timestamp::now());
            let day = |years: i32| rcgen::date_time_ymd(i32::from(today.year()) + years, 1, 1);
            (params.not_before, params.not_after) = (day(0), day(11));
            let certificate = params.self_signed(&key).map_err(|e| e.to_string())?;
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
            self.config(vec![certificate.der().clone()], key)
        };
        made()
            .map(Certificates::fixed)
            .map_err(|why| wrong("--secure-serving", why, "give certificates with --cert-path"))
    }

    /// `tls.crt` and `tls.key` of a directory; `follow`: also when they change.
    pub(super) fn directory(&self, flag: &str, directory: &Path, follow: bool) -> Result<Certificates, Failure> {
        let config =
            self.load(directory).map_err(|why| wrong(flag, why, "it must hold tls.crt and tls.key, in PEM"))?;
        let certificates = Certificates::fixed(config);
        if follow {
            let (policy, directory) = (self.clone(), directory.to_owned());
            let current = Arc::clone(&certificates.0);
            tokio::spawn(async move { policy.follow(&directory, &current).await });
        }
        Ok(certificates)
    }

    fn load(&self, directory: &Path) -> Result<Arc<ServerConfig>, String> {
        let (chain, key) = (directory.join("tls.crt"), directory.join("tls.key"));
        let chain = certificates(&chain)?;
        let key = PrivateKeyDer::from_pem_file(&key).map_err(|e| format!("{}: {e}", key.display()))?;
        self.config(chain, key)
    }

    /// Looks again and again: a swap of symbolic links, as Kubernetes does it, leaves nothing to be told of in the directory itself.
    async fn follow(&self, directory: &Path, current: &ArcSwap<ServerConfig>) {
        let mut seen = contents(directory);
        loop {
            tokio::time::sleep(LOOK).await;
            let now = contents(directory);
            if now == seen {
                continue;
            }
            tokio::time::sleep(SETTLE).await;
            if contents(directory) != now {
                continue;
            }
            match self.load(directory) {
                Ok(config) => {
                    current.store(config);
                    tracing::info!(directory = %directory.display(), "certificates reloaded");
                }
                Err(error) => {
                    tracing::warn!(directory = %directory.display(), error, "new certificates cannot be used; the old ones stay");
                }
            }
            seen = now;
        }
    }
}

/// Both files' bytes, wherever links lead.
fn contents(directory: &Path) -> [Option<Vec<u8>>; 2] {
    ["tls.crt", "tls.key"].map(|name| std::fs::read(directory.join(name)).ok())
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let shown = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let all: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path).map_err(|e| shown(&e))?.collect();
    match all {
        Ok(all) if all.is_empty() => Err(shown(&"no certificate in it")),
        Ok(all) => Ok(all),
        Err(error) => Err(shown(&error)),
    }
}

/// Whether Go calls that suite so.
fn names(name: &str, suite: &SupportedCipherSuite) -> bool {
    let ours = format!("{:?}", suite.suite()).replace("TLS13_", "TLS_");
    ours == name || ours.strip_suffix("_SHA256") == Some(name)
}

/// A TLS set-up that may change.
#[derive(Clone, Debug)]
pub(super) struct Certificates(Arc<ArcSwap<ServerConfig>>);

impl Certificates {
    fn fixed(config: Arc<ServerConfig>) -> Self {
        Self(Arc::new(ArcSwap::new(config)))
    }

    /// For a listener.
    pub(super) fn source(&self) -> Arc<dyn Fn() -> Arc<ServerConfig> + Send + Sync> {
        let current = Arc::clone(&self.0);
        Arc::new(move || current.load_full())
    }
}
