//! Scrape sources as a configuration document declares them.

use std::sync::Arc;

use pointsman_fleet::EndpointMeta;
use pointsman_plugins::CompiledSource;
use pointsman_plugins::data_layer::core_metrics_extractor::EngineMappings;

use crate::http::{TlsClient, TlsError, TlsOptions};
use crate::scrape::{Extracted, Extractor, ScrapeSource};

impl Extractor for EngineMappings {
    fn type_name(&self) -> &'static str {
        "core-metrics-extractor"
    }

    fn extract(&self, endpoint: &EndpointMeta, page: &[u8]) -> Extracted {
        EngineMappings::extract(self, self.label(&endpoint.labels), page)
    }
}

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
            type_name: "metrics-data-source",
            secure: source.tls,
            tls,
            path: source.path.clone(),
            port: source.port,
            interval: source.interval,
            extractors: declared.extractors.iter().map(|e| Arc::clone(e) as Arc<dyn Extractor>).collect(),
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
