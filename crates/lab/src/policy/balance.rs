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
        let pods = view.up;
        let any = |rng: &mut Rng, of: usize| rng.between(0, of.saturating_sub(1) as u64) as usize;
        let rng = &mut self.rng;
        let pod = match self.by {
            By::Turn => {
                self.next += 1;
                pods[self.next % pods.len()]
            }
            By::Chance => pods[any(rng, pods.len())],
            By::LeastRequest => self.load.least(pods, rng),
            By::TwoChoices => {
                let at = any(rng, pods.len());
                let (one, other) = (pods[at], pods[(at + 1 + any(rng, pods.len() - 1)) % pods.len()]);
                if self.load.of(other) < self.load.of(one) { other } else { one }
            }
            By::Scraped => {
                let waiting = |pod: usize| view.gauges[pod].waiting as f64;
                let all = pods.iter().map(|pod| waiting(*pod));
                let (low, high) = all.fold((f64::MAX, 0.0_f64), |(l, h), w| (l.min(w), h.max(w)));
                let queue = |pod: usize| if high > low { (high - waiting(pod)) / (high - low) } else { 1.0 };
                best(pods, rng, |pod| queue(pod) + 1.0 - view.gauges[pod].kv_usage)
            }
        };
        Some(self.load.place(ask.id, pod))
    }

    fn ended(&mut self, _: Nanos, id: u32, _: &Over) {
        self.load.end(id);
    }
}
