//! The bound on request bytes held at the same time.

use crate::metrics::GatewayMetrics;

/// Bytes that one request holds of the budget; given back when dropped.
#[derive(Debug)]
pub(crate) struct Held {
    metrics: GatewayMetrics,
    bytes: i64,
}

impl Held {
    /// Nothing yet.
    pub(crate) fn new(metrics: &GatewayMetrics) -> Self {
        Self { metrics: metrics.clone(), bytes: 0 }
    }

    /// Takes `bytes` more; false, and nothing taken, when all requests together would hold more than `limit`.
    pub(crate) fn take(&mut self, bytes: usize, limit: u64) -> bool {
        let more = bytes as i64;
        let before = self.metrics.buffered_bytes.inc_by(more);
        if (before + more) as u64 > limit {
            self.metrics.buffered_bytes.dec_by(more);
            return false;
        }
        self.bytes += more;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.metrics.buffered_bytes.dec_by(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_is_shared_and_given_back() {
        let metrics = GatewayMetrics::default();
        let (mut a, mut b) = (Held::new(&metrics), Held::new(&metrics));
        assert!(a.take(60, 100));
        assert!(!b.take(41, 100), "101 of 100");
        assert!(b.take(40, 100));
        assert_eq!(metrics.buffered_bytes.get(), 100);
        drop(a);
        assert_eq!(metrics.buffered_bytes.get(), 40);
        assert!(b.take(60, 100));
        drop(b);
        assert_eq!(metrics.buffered_bytes.get(), 0);
    }
}
