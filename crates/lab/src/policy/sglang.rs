//! The cache-aware policy of SGLang's router (parameters as in its Python binding), and longest match alone.

use pointsman_core::Nanos;
use pointsman_sim::Rng;

use super::in_flight::{InFlight, best};
use super::tree::Sent;
use super::{Ask, Over, Policy, View};

/// Blocks that the trees remember per engine.
const REMEMBERED: usize = 1 << 20;

/// Match first, unless load is unequal.
#[derive(Debug)]
pub(super) struct CacheAware {
    /// Share of a prompt that must match to follow the match.
    threshold: f64,
    /// Difference of requests in flight beyond which load counts.
    absolute: u64,
    /// Quotient of requests in flight beyond which load counts.
    relative: f64,
    sent: Sent,
    load: InFlight,
    rng: Rng,
}

impl CacheAware {
    pub(super) fn new(threshold: f64, absolute: u64, relative: f64, seed: u64) -> Self {
        let rng = Rng::new(seed);
        Self { threshold, absolute, relative, sent: Sent::new(REMEMBERED), load: InFlight::default(), rng }
    }
}

impl Policy for CacheAware {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        let pods = view.up;
        let loads = pods.iter().map(|pod| self.load.of(*pod));
        let (low, high) = (loads.clone().min().unwrap_or(0), loads.max().unwrap_or(0));
        let unequal = high - low > self.absolute && high as f64 > self.relative * low as f64;
        let pod = if unequal {
            self.load.least(pods, &mut self.rng)
        } else {
            let longest = best(pods, &mut self.rng, |pod| self.sent.matched(pod, ask.keys) as f64);
            let share = self.sent.matched(longest, ask.keys) as f64 / ask.keys.len().max(1) as f64;
            if share > self.threshold {
                longest
            } else {
                best(pods, &mut self.rng, |pod| -(self.sent.size(pod) as f64))
            }
        };
        self.sent.send(pod, ask.keys);
        Some(self.load.place(ask.id, pod))
    }

    fn gone(&mut self, pod: usize) {
        self.sent.forget(pod);
    }

    fn ended(&mut self, _: Nanos, id: u32, _: &Over) {
        self.load.end(id);
    }
}

/// The longest match, whatever the load.
#[derive(Debug)]
pub(super) struct PrefixOnly {
    sent: Sent,
    rng: Rng,
}

impl PrefixOnly {
    pub(super) fn new(seed: u64) -> Self {
        Self { sent: Sent::new(REMEMBERED), rng: Rng::new(seed) }
    }
}

impl Policy for PrefixOnly {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        let pod = best(view.up, &mut self.rng, |pod| self.sent.matched(pod, ask.keys) as f64);
        self.sent.send(pod, ask.keys);
        Some(pod)
    }

    fn gone(&mut self, pod: usize) {
        self.sent.forget(pod);
    }
}
