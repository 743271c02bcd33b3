//! Filters: who may serve at all.

pub mod by_label;
pub mod decode_filter;
pub mod encode_filter;
pub mod header_based_testing_filter;
pub mod label_selector_filter;
pub mod prefill_filter;
pub mod utilization_filter;
