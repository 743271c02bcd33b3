//! Policies that know nothing of prompts: round robin, random, least request, power of two choices, scraped load.

use pointsman_core::Nanos;
use pointsman_sim::Rng;

use super::in_flight::{InFlight, best};
use super::{Ask, Over, Policy, View};

/// How [`Balance`] balances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Turn,
    Chance,
    LeastRequest,
    TwoChoices,
    /// Fewest waiting and least KV cache in use as last scraped, each scaled as the production scorers do, and added.
    Scraped,
}

/// Places by load, or without looking at all.
#[derive(Debug)]
pub(super) struct Balance {
    by: By,
    next: usize,
    load: InFlight,
    rng: Rng,
}

impl Balance {
    pub(super) fn new(by: By, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        Self { by, next: rng.between(0, 1 << 20) as usize, load: InFlight::default(), rng }
    }
}

impl Policy for Balance {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        let pods = view.engines.len();
        let rng = &mut self.rng;
        let pod = match self.by {
            By::Turn => {
                self.next += 1;
                self.next % pods
            }
            By::Chance => rng.between(0, pods as u64 - 1) as usize,
            By::LeastRequest => self.load.least(pods, rng),
            By::TwoChoices => {
                let one = rng.between(0, pods as u64 - 1) as usize;
                let other = (one + 1 + rng.between(0, (pods as u64).saturating_sub(2)) as usize) % pods;
                if self.load.of(other) < self.load.of(one) { other } else { one }
            }
            By::Scraped => {
                let waiting = |pod: usize| view.gauges[pod].waiting as f64;
                let (low, high) = (0..pods).map(waiting).fold((f64::MAX, 0.0_f64), |(l, h), w| (l.min(w), h.max(w)));
                let queue = |pod: usize| if high > low { (high - waiting(pod)) / (high - low) } else { 1.0 };
                best(pods, rng, |pod| queue(pod) + 1.0 - view.gauges[pod].kv_usage)
            }
        };
        Some(self.load.place(ask.id, pod, pods))
    }

    fn ended(&mut self, _: Nanos, id: u32, _: &Over) {
        self.load.end(id);
    }
}
