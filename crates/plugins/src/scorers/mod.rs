//! Scorers: how well each candidate would serve, from 0 to 1.
//!
//! A signal that is unknown or stale is not zero. Beside candidates whose signal is known it scores 0, so that an endpoint nobody has
//! heard of never looks like the idle one; where nobody's signal is known, all score alike.

pub mod active_request_scorer;
pub mod endpoint_attribute_scorer;
pub mod header_label_affinity_scorer;
pub mod kv_cache_utilization_scorer;
pub mod latency_scorer;
pub mod load_aware_scorer;
pub mod lora_affinity_scorer;
pub mod mm_embeddings_cache_scorer;
pub mod multicluster_kv_cache_utilization_scorer;
pub mod multicluster_queue_scorer;
pub mod no_hit_lru_scorer;
pub mod prefix_cache_scorer;
pub mod queue_scorer;
pub mod running_requests_size_scorer;
pub mod session_affinity_scorer;
pub mod token_load_scorer;
pub mod topology_affinity_scorer;

use pointsman_scheduling::{Candidate, Scope};

/// Scores a signal by `rate`; unknown ones score 0, or 1 when nobody's is known.
fn by_signal(
    scope: Scope<'_>,
    out: &mut [f64],
    signal: impl Fn(&Candidate<'_>) -> Option<f64>,
    rate: impl Fn(f64) -> f64,
) {
    let mut known = false;
    for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
        if let Some(value) = signal(candidate) {
            *out = rate(value);
            known = true;
        }
    }
    if !known {
        out.fill(1.0);
    }
}

/// `(max - x) / (max - min)` over the known values; 1 when they are all equal.
fn min_max(scope: Scope<'_>, out: &mut [f64], signal: impl Fn(&Candidate<'_>) -> Option<f64>) {
    let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
    for (_, candidate) in scope.iter() {
        if let Some(value) = signal(candidate) {
            (min, max) = (min.min(value), max.max(value));
        }
    }
    by_signal(scope, out, signal, |value| if max > min { (max - value) / (max - min) } else { 1.0 });
}
