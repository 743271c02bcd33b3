//! Bounds: a greedy oracle that looks into the engines, and one endless cache for all.

use hashbrown::HashMap;
use pointsman_core::Nanos;
use pointsman_sim::{Engine, Rng, StepShape};

use super::in_flight::{InFlight, best};
use super::{Ask, Over, Policy, View};

/// Knows cache, queue and what is on its way, without delay; picks the earliest first token by the engines' own cost model. Greedy: it does not look
/// ahead, so it is no upper bound of all policies.
#[derive(Debug)]
pub(super) struct Oracle {
    /// Sent, and not yet at the engine: prompt tokens to compute, by engine.
    travelling: HashMap<u32, (usize, u64, Nanos)>,
    rng: Rng,
}

impl Oracle {
    pub(super) fn new(seed: u64) -> Self {
        Self { travelling: HashMap::new(), rng: Rng::new(seed) }
    }
}

/// Seconds until an engine would have computed `own` more prompt tokens, behind `ahead` of others.
fn first_token(engine: &Engine, view: &View<'_>, ahead: u64, own: u64, context: u64) -> f64 {
    let costs = view.options.profile.costs();
    let decoding = engine.running() as u64;
    let budget = view.options.max_num_batched_tokens;
    let work = ahead + own;
    // Decodes take part in every step that the prompts need.
    let steps = work.div_ceil(budget).max(1);
    let resident = (engine.kv_usage() * engine.pool().total() as f64 * f64::from(view.options.block_size)) as u64;
    let step = StepShape {
        tokens: (work / steps).max(1) + decoding,
        prefill_pairs: own as f64 / steps as f64 * (context as f64 + own as f64 / 2.0),
        decode_context: resident.saturating_sub(engine.prefill_left()),
        requests: decoding + 1,
    };
    costs.seconds(&step) * steps as f64
}

impl Policy for Oracle {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        let now = view.now;
        let block = u64::from(view.options.block_size);
        let lag = view.options.dispatch;
        self.travelling.retain(|_, (_, _, at)| at.plus(lag) >= now);
        let mut ahead = vec![0; view.engines.len()];
        for (pod, tokens, _) in self.travelling.values() {
            ahead[*pod] += tokens;
        }
        let tokens = ask.request.prompt.tokens.max(1);
        let uncached: Vec<u64> = view
            .engines
            .iter()
            .map(|e| tokens - (e.pool().find(ask.keys.iter().copied()).0 as u64).min((tokens - 1) / block) * block)
            .collect();
        let pod = best(view.up, &mut self.rng, |pod| {
            let engine = &view.engines[pod];
            let before = ahead[pod] + engine.prefill_left();
            let mut seconds = first_token(engine, view, before, uncached[pod], tokens - uncached[pod]);
            // Blocks that are not there are waited for: as long as it takes until others finish, of which the queue's length is a sign.
            let free = engine.pool().free() as u64;
            let wanted = (before + uncached[pod]).div_ceil(block);
            if wanted > free {
                seconds += (wanted - free) as f64 * 0.05 + engine.waiting() as f64;
            }
            -seconds
        });
        self.travelling.insert(ask.id, (pod, uncached[pod], now));
        Some(pod)
    }

    fn ended(&mut self, _: Nanos, id: u32, _: &Over) {
        self.travelling.remove(&id);
    }
}

/// All engines share one endless cache; requests go where the fewest tokens are to be computed, then where the fewest requests are.
#[derive(Debug)]
pub(super) struct PooledCache {
    load: InFlight,
    rng: Rng,
}

impl PooledCache {
    pub(super) fn new(seed: u64) -> Self {
        Self { load: InFlight::default(), rng: Rng::new(seed) }
    }
}

impl Policy for PooledCache {
    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        let load = |pod: usize| view.engines[pod].prefill_left() as f64 + 1e-3 * self.load.of(pod) as f64;
        let pod = best(view.up, &mut self.rng, |pod| -load(pod));
        Some(self.load.place(ask.id, pod))
    }

    fn ended(&mut self, _: Nanos, id: u32, _: &Over) {
        self.load.end(id);
    }

    fn pools_caches(&self) -> bool {
        true
    }
}
