//! Several routers of one kind in front of one fleet: each knows only the requests that came through it.

use hashbrown::HashMap;
use pointsman_core::Nanos;
use pointsman_sim::Engine;

use super::{Ask, Over, Policy, View};

/// Requests come to the routers in turn.
pub(super) struct Replicas {
    routers: Vec<Box<dyn Policy>>,
    next: usize,
    /// Whose request it is.
    owners: HashMap<u32, usize>,
}

impl Replicas {
    /// At least one router.
    pub(super) fn new(routers: Vec<Box<dyn Policy>>) -> Self {
        Self { routers, next: 0, owners: HashMap::new() }
    }

    fn owner(&mut self, id: u32) -> Option<&mut Box<dyn Policy>> {
        self.owners.get(&id).and_then(|at| self.routers.get_mut(*at))
    }
}

impl Policy for Replicas {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        let at = self.next % self.routers.len();
        self.next += 1;
        let pod = self.routers[at].pick(ask, view)?;
        self.owners.insert(ask.id, at);
        Some(pod)
    }

    fn prefill(&self) -> Option<usize> {
        let last = self.next.checked_sub(1)? % self.routers.len();
        self.routers[last].prefill()
    }

    fn gone(&mut self, pod: usize) {
        self.routers.iter_mut().for_each(|router| router.gone(pod));
    }

    fn back(&mut self, pod: usize) {
        self.routers.iter_mut().for_each(|router| router.back(pod));
    }

    fn scraped(&mut self, now: Nanos, pod: usize, engine: &Engine) {
        self.routers.iter_mut().for_each(|router| router.scraped(now, pod, engine));
    }

    fn first_token(&mut self, now: Nanos, id: u32) {
        if let Some(router) = self.owner(id) {
            router.first_token(now, id);
        }
    }

    fn ended(&mut self, now: Nanos, id: u32, over: &Over) {
        if let Some(router) = self.owner(id) {
            router.ended(now, id, over);
        }
        self.owners.remove(&id);
    }

    fn pools_caches(&self) -> bool {
        self.routers.iter().any(|router| router.pools_caches())
    }
}
