//! Request bytes that are held, over all requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes held by all requests together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget(Arc<AtomicU64>);

/// What one request holds of it.
#[derive(Debug)]
pub(crate) struct Held {
    budget: Budget,
    bytes: u64,
}

impl Budget {
    pub(crate) fn nothing(&self) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }

    pub(crate) fn held(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Held {
    /// Takes `bytes` more. `false`: all requests together would hold more than `limit`.
    pub(crate) fn take(&mut self, bytes: u64, limit: u64) -> bool {
        self.bytes += bytes;
        self.budget.0.fetch_add(bytes, Ordering::Relaxed) + bytes <= limit
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
