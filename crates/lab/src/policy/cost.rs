//! The cost of Dynamo's KV router: blocks to be computed, and blocks that decode there.

use hashbrown::HashMap;
use pointsman_core::Nanos;
use pointsman_sim::Rng;

use super::in_flight::best;
use super::tree::Sent;
use super::{Ask, Over, Policy, View};

/// Lowest `weight * uncached prompt blocks + active blocks`, at temperature 0.
#[derive(Debug)]
pub(super) struct DynamoCost {
    weight: f64,
    sent: Option<Sent>,
    /// Blocks of each engine's requests.
    active: Vec<f64>,
    placed: HashMap<u32, (usize, f64)>,
    rng: Rng,
}

impl DynamoCost {
    pub(super) fn new(weight: f64, seed: u64) -> Self {
        Self { weight, sent: None, active: Vec::new(), placed: HashMap::new(), rng: Rng::new(seed) }
    }
}

impl Policy for DynamoCost {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        self.active.resize(view.engines.len(), 0.0);
        let sent = self.sent.get_or_insert_with(|| Sent::new(view.options.blocks() as usize));
        let blocks = ask.request.prompt.tokens as f64 / f64::from(view.options.block_size);
        let (weight, active) = (self.weight, &self.active);
        let cost = |pod: usize| weight * (blocks - sent.matched(pod, ask.keys) as f64) + active[pod];
        let pod = best(view.up, &mut self.rng, |pod| -cost(pod));
        sent.send(pod, ask.keys);
        self.active[pod] += blocks;
        self.placed.insert(ask.id, (pod, blocks));
        Some(pod)
    }

    fn gone(&mut self, pod: usize) {
        if let Some(sent) = &mut self.sent {
            sent.forget(pod);
        }
    }

    fn ended(&mut self, _: Nanos, id: u32, _: &Over) {
        if let Some((pod, blocks)) = self.placed.remove(&id) {
            self.active[pod] -= blocks;
        }
    }
}
