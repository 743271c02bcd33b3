//! Filters: who may serve at all.

pub mod by_label;
pub mod context_length_aware;
pub mod decode_filter;
pub mod encode_filter;
pub mod endpoint_attribute_filter;
pub mod header_based_testing_filter;
pub mod label_selector_filter;
pub mod prefill_filter;
pub mod prefix_cache_affinity_filter;
pub mod session_affinity_filter;
pub mod slo_headroom_tier_filter;
pub mod topology_affinity_filter;
pub mod utilization_filter;
