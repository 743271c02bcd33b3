//! Data layer: where engine state and endpoints come from. Parameters and formulas are here; the I/O is in `sources`.

pub mod core_metrics_extractor;
pub mod dcgm_data_source;
pub mod dcgm_extractor;
pub mod endpoint_notification_source;
pub mod extractor;
pub mod file_discovery;
pub mod metrics_data_source;
pub mod models_data_extractor;
pub mod models_data_source;
pub mod multicluster_file_discovery;
pub mod multicluster_metrics_data_source;
pub mod multicluster_metrics_extractor;
pub mod source;
#[cfg(test)]
mod testing;
pub mod topology_extractor;
