//! Requests on their way, as one router knows them.

use hashbrown::HashMap;
use pointsman_sim::Rng;

/// Counts per engine.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    counts: Vec<u64>,
    placed: HashMap<u32, usize>,
}

impl InFlight {
    pub(super) fn place(&mut self, id: u32, pod: usize) -> usize {
        self.counts.resize(self.counts.len().max(pod + 1), 0);
        self.counts[pod] += 1;
        self.placed.insert(id, pod);
        pod
    }

    /// Takes a request out. Where it was.
    pub(super) fn end(&mut self, id: u32) -> Option<usize> {
        let pod = self.placed.remove(&id)?;
        self.counts[pod] -= 1;
        Some(pod)
    }

    pub(super) fn of(&self, pod: usize) -> u64 {
        self.counts.get(pod).copied().unwrap_or(0)
    }

    pub(super) fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The engine with the fewest, any of them where several have.
    pub(super) fn least(&self, pods: &[usize], rng: &mut Rng) -> usize {
        best(pods, rng, |pod| -(self.of(pod) as f64))
    }
}

/// The engine with the highest value, any of those where several have it. There is at least one.
pub(super) fn best(pods: &[usize], rng: &mut Rng, value: impl Fn(usize) -> f64) -> usize {
    let (mut best, mut ties, mut high) = (0, 0, f64::NEG_INFINITY);
    for &pod in pods {
        let v = value(pod);
        if v > high {
            (best, ties, high) = (pod, 1, v);
        } else if v == high {
            ties += 1;
            if rng.between(1, ties) == 1 {
                best = pod;
            }
        }
    }
    best
}
