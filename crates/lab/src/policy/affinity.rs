//! Policies that hash: a session, or the beginning of a prompt, on a ring with bounded loads.

use hashbrown::HashMap;
use pointsman_core::Nanos;
use pointsman_sim::Rng;

use super::in_flight::InFlight;
use super::{Ask, Over, Policy, View};
use crate::mix;

/// Points of one engine on the ring.
const POINTS: u64 = 128;

/// What is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// The conversation; a request without one goes where the fewest are.
    Session,
    /// So many leading tokens of the prompt.
    Beginning(u64),
}

/// Consistent hashing. With `bound` c, an engine holds at most ceil(c * (all + 1) / engines) requests; beyond, the next on the ring takes over
/// (Mirrokni et al. 2018).
#[derive(Debug)]
pub(super) struct Affinity {
    of: Of,
    bound: Option<f64>,
    ring: Vec<(u64, usize)>,
    homes: HashMap<u64, usize>,
    load: InFlight,
    rng: Rng,
}

impl Affinity {
    pub(super) fn new(of: Of, bound: Option<f64>, seed: u64) -> Self {
        Self { of, bound, ring: Vec::new(), homes: HashMap::new(), load: InFlight::default(), rng: Rng::new(seed) }
    }

    fn key(&self, ask: &Ask<'_>, block: u64) -> Option<u64> {
        match self.of {
            Of::Session => ask.request.session.map(mix),
            // A shorter prompt is hashed whole, one without a full block not at all.
            Of::Beginning(tokens) => {
                let at = (tokens / block).max(1).min(ask.keys.len() as u64);
                at.checked_sub(1).map(|at| ask.keys[at as usize])
            }
        }
    }
}

impl Policy for Affinity {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        let pods = view.up;
        if self.ring.is_empty() {
            self.ring = (0..view.engines.len())
                .flat_map(|pod| (0..POINTS).map(move |p| (mix(mix(pod as u64) ^ p), pod)))
                .collect();
            self.ring.sort_unstable();
        }
        let key = self.key(ask, u64::from(view.options.block_size));
        let pod = match (key, self.of, self.bound) {
            (None, ..) => self.load.least(pods, &mut self.rng),
            // A session stays where it was first put.
            (Some(key), Of::Session, _) => match self.homes.get(&key) {
                Some(&home) if pods.contains(&home) => home,
                _ => {
                    let home = self.load.least(pods, &mut self.rng);
                    self.homes.insert(key, home);
                    home
                }
            },
            (Some(key), Of::Beginning(_), bound) => {
                let most =
                    bound.map_or(u64::MAX, |c| (c * (self.load.total() + 1) as f64 / pods.len() as f64).ceil() as u64);
                let from = self.ring.partition_point(|(point, _)| *point < mix(key));
                let around = (0..self.ring.len()).map(|step| self.ring[(from + step) % self.ring.len()].1);
                let mut around = around.filter(|pod| self.load.of(*pod) < most && pods.contains(pod));
                around.next()?
            }
        };
        Some(self.load.place(ask.id, pod))
    }

    fn ended(&mut self, _: Nanos, id: u32, _: &Over) {
        self.load.end(id);
    }
}
