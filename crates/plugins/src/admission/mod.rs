//! Admission: whether a request is let in, once its candidates are known.

pub mod latency_slo_admitter;
pub mod probabilistic_admitter;
