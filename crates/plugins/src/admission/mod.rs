//! Admission: whether a request is let in, once its candidates are known.

pub mod latency_slo_admitter;
pub mod probabilistic_admitter;

/// Said of whoever refuses by priority: as long as no objectives are read from a cluster, every request has priority 0.
const NO_PRIORITIES: &str = "it refuses requests of negative priority only, and priorities come from `InferenceObjective`, which is not available yet: it admits everybody";
