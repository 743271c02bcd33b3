//! Sources of pages as a configuration document declares them.

use pointsman_plugins::CompiledSource;

use crate::http::{PageAt, TlsClient, TlsError, TlsOptions};
use crate::scrape::ScrapeSource;

impl ScrapeSource {
    /// Makes a declared source ready for use: reads its certificate files.
    ///
    /// # Errors
    /// When a certificate file cannot be read or used.
    pub fn compile(declared: &CompiledSource) -> Result<Self, TlsError> {
        let source = &declared.source;
        let tls = TlsClient::new(&TlsOptions {
            insecure_skip_verify: source.insecure_skip_verify,
            ca: source.ca_cert_path.clone(),
            client_cert: source.client_cert.clone(),
        })?;
        Ok(Self {
            type_name: source.type_name,
            page: source.page,
            at: PageAt { host: source.host, port: source.port, secure: source.tls },
            tls,
            path: source.path.clone(),
            interval: source.interval,
            extractors: declared.extractors.clone(),
        })
    }

    /// [`ScrapeSource::compile`] for a whole configuration.
    ///
    /// # Errors
    /// The first source that cannot be made ready.
    pub fn compile_all(declared: &[CompiledSource]) -> Result<Vec<Self>, TlsError> {
        declared.iter().map(Self::compile).collect()
    }
}
