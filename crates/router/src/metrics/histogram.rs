//! A histogram without a lock.
//!
//! The client library's own keeps its buckets behind one lock, which every request would take some twenty times. Here an observation is a search among a
//! few bounds and two atomic additions; what a scrape reads may be an observation apart.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A classic histogram. Clones share their counts.
#[derive(Clone, Debug)]
pub(super) struct Histogram(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Inclusive upper bounds; the last one is infinite.
    bounds: Box<[f64]>,
    counts: Box<[AtomicU64]>,
    /// Bits of an `f64`.
    sum: AtomicU64,
}

impl Histogram {
    /// A histogram of these upper bounds, which must grow.
    pub(super) fn new(bounds: impl IntoIterator<Item = f64>) -> Self {
        let bounds: Box<[f64]> = bounds.into_iter().chain([f64::INFINITY]).collect();
        let counts = bounds.iter().map(|_| AtomicU64::new(0)).collect();
        Self(Arc::new(Inner { bounds, counts, sum: AtomicU64::new(0) }))
    }

    /// Counts a value. What is not a number is not counted.
    pub(super) fn observe(&self, value: f64) {
        if value.is_nan() {
            return;
        }
        let h = &*self.0;
        let bucket = h.bounds.partition_point(|bound| *bound < value).min(h.counts.len() - 1);
        h.counts[bucket].fetch_add(1, Ordering::Relaxed);
        let add = |bits| Some((f64::from_bits(bits) + value).to_bits());
        // Ends with `Ok` always: the closure never refuses.
        let _ = h.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }
}

impl TypedMetric for Histogram {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Histogram {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let h = &*self.0;
        let counts = h.counts.iter().map(|c| c.load(Ordering::Relaxed));
        let buckets: Vec<(f64, u64)> = h.bounds.iter().copied().zip(counts).collect();
        let count = buckets.iter().map(|(_, c)| c).sum();
        encoder.encode_histogram::<NoLabelSet>(f64::from_bits(h.sum.load(Ordering::Relaxed)), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;
    use prometheus_client::metrics::histogram::Histogram as Reference;
    use prometheus_client::registry::Registry;

    #[test]
    fn the_page_is_that_of_the_library() {
        let bounds = [0.1, 1.0, 10.0];
        let (ours, theirs) = (Histogram::new(bounds), Reference::new(bounds));
        for value in [0.0, 0.1, 0.100001, 1.0, 9.9, 10.0, 11.0, 1e9, -3.0] {
            ours.observe(value);
            theirs.observe(value);
        }
        let page = |metric: Box<dyn FnOnce(&mut Registry)>| {
            let mut registry = Registry::default();
            metric(&mut registry);
            let mut page = String::new();
            encode(&mut page, &registry).expect("writing to a string");
            page
        };
        let ours = page(Box::new(move |r| r.register("h", "help", ours)));
        assert_eq!(ours, page(Box::new(move |r| r.register("h", "help", theirs))));
    }

    #[test]
    fn no_observation_is_lost_between_threads() {
        let h = Histogram::new([0.5]);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..10_000).for_each(|_| h.observe(1.0)));
            }
        });
        assert_eq!(h.0.counts[1].load(Ordering::Relaxed), 40_000);
        assert_eq!(f64::from_bits(h.0.sum.load(Ordering::Relaxed)), 40_000.0);
        h.observe(f64::NAN);
        assert_eq!(h.0.counts[0].load(Ordering::Relaxed), 0);
    }
}
