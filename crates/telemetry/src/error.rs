//! What can be wrong with an exporter.

use std::path::PathBuf;

/// Why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// A PEM file could not be read.
    #[error("{variable} names {}, which cannot be read: {why}", path.display())]
    Unreadable {
        /// Variable that names it.
        variable: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        why: std::io::Error,
    },
    /// The exporter does not take what the variables say.
    #[error("the OTLP exporter cannot be made: {0}")]
    Exporter(#[from] opentelemetry_otlp::ExporterBuildError),
}
