//! Data layer: where engine state and endpoints come from. Parameters and formulas are here; the I/O is in `sources`.

pub mod core_metrics_extractor;
pub mod file_discovery;
pub mod metrics_data_source;
pub mod topology_extractor;
