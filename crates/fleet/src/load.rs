//! What this process has sent to an endpoint and not seen end.

use std::sync::atomic::{AtomicU64, Ordering};

/// In-flight requests and tokens of one endpoint. Known at once, where scraped figures lag by an interval: it is what
/// keeps a burst from landing on the one engine that looked idle.
#[derive(Debug, Default)]
pub struct Load {
    requests: AtomicU64,
    tokens: AtomicU64,
}

impl Load {
    /// Adds what is sent.
    pub fn charge(&self, requests: u64, tokens: u64) {
        self.requests.fetch_add(requests, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Takes back what ended. Neither figure goes below 0.
    pub fn release(&self, requests: u64, tokens: u64) {
        for (figure, by) in [(&self.requests, requests), (&self.tokens, tokens)] {
            if by > 0 {
                // Ends with `Ok` always: the closure never refuses.
                let _ = figure.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |have| Some(have.saturating_sub(by)));
            }
        }
    }

    /// Requests in flight.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Tokens in flight, as the charging side counted them.
    #[must_use]
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_is_undone_by_its_release() {
        let load = Load::default();
        load.charge(1, 500);
        load.charge(1, 20);
        load.release(1, 500);
        assert_eq!((load.requests(), load.tokens()), (1, 20));
    }

    #[test]
    fn releasing_more_than_was_charged_stops_at_zero() {
        let load = Load::default();
        load.charge(1, 10);
        load.release(3, 11);
        assert_eq!((load.requests(), load.tokens()), (0, 0));
        load.charge(1, 5);
        assert_eq!((load.requests(), load.tokens()), (1, 5));
    }

    #[test]
    fn concurrent_charges_and_releases_balance() {
        let load = Load::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        load.charge(1, 7);
                        load.release(1, 7);
                    }
                });
            }
        });
        assert_eq!((load.requests(), load.tokens()), (0, 0));
    }
}
