//! The engine as its owner sees it: requests in, events out, time from outside.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::Nanos;

use crate::admission::LoraSlots;
use crate::legs::{HeldBlocks, Kv, Leg};
use crate::run::Run;
use crate::sequence::Sequence;
use crate::{BlockPool, Rng, Timing};

/// Sizes and limits of an engine.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// KV blocks.
    pub blocks: u32,
    /// Tokens per block.
    pub block_size: u32,
    /// Requests that may run at once.
    pub max_num_seqs: usize,
    /// Tokens computed in one step (with [`Timing::Step`]).
    pub max_num_batched_tokens: u64,
    /// Longest chunk of one prompt in one step; 0 = only the budget bounds it.
    pub long_prefill_token_threshold: u64,
    /// Requests that may wait beyond the free seats.
    pub max_waiting: usize,
    /// Distinct LoRA adapters in one batch; 0 = requests with an adapter are refused.
    pub max_loras: usize,
    /// Time between arrival and entering the queue (tokenising, API process). Not visible as waiting.
    pub api_overhead: Duration,
    /// Time to bring an adapter into a slot.
    pub lora_load: Duration,
    /// Factor on steps while an adapter is active.
    pub lora_step_factor: f64,
    /// How long blocks of a finished prefill leg are kept for an engine that does not come for them.
    pub hold: Duration,
    /// Steps that only decode are one event ([`Engine::next_event`]), with one draw of noise. Off where somebody waits for each token.
    pub coalesce: bool,
    /// Seed of all draws.
    pub seed: u64,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            blocks: 27_280,
            block_size: 16,
            max_num_seqs: 256,
            max_num_batched_tokens: 8_192,
            long_prefill_token_threshold: 0,
            max_waiting: 1_000,
            max_loras: 1,
            api_overhead: Duration::ZERO,
            lora_load: Duration::ZERO,
            lora_step_factor: 1.0,
            hold: Duration::from_secs(480),
            coalesce: true,
            seed: 0,
        }
    }
}

/// A request for the engine.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Chosen by the caller, unique among the requests inside the engine.
    pub id: u64,
    /// Keys of the prompt's full blocks, in order. Fewer than there are full blocks is allowed: the rest is never shared.
    pub blocks: Vec<u64>,
    /// Prompt length (0 counts as 1).
    pub prompt_tokens: u64,
    /// Tokens it will generate (0 counts as 1).
    pub output_tokens: u64,
    /// LoRA adapter it needs.
    pub lora: Option<Arc<str>>,
    /// Leading blocks that need not be computed even if this engine's cache lacks them: they come from elsewhere, in no time. They take room like
    /// all others.
    pub given: usize,
    /// Which part of it this engine does. A prefill leg generates one token, whatever `output_tokens` says.
    pub leg: Leg,
}

/// Why a request was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests wait as may.
    #[error("the waiting queue is full ({waiting} requests)")]
    QueueFull {
        /// Requests waiting.
        waiting: usize,
    },
    /// Prompt and output would not fit even into an empty cache.
    #[error("the request needs {needed} KV blocks, the engine has {total}")]
    TooLarge {
        /// Blocks it needs at its end.
        needed: u64,
        /// Blocks there are.
        total: u64,
    },
    /// It needs an adapter, and the engine has no slot for any.
    #[error("the engine has no LoRA slots")]
    NoLoraSlots,
}

/// Something that happened inside the engine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// When, on the engine's time line.
    pub at: Nanos,
    /// To which request.
    pub id: u64,
    /// What.
    pub what: What,
}

/// Kinds of [`Event`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// The request left the queue for the first time.
    Admitted {
        /// Prompt tokens found in the prefix cache.
        cached_tokens: u64,
    },
    /// A decode leg has its blocks and waits for the KV of so many prompt tokens ([`Engine::receive`]).
    Fetching {
        /// Prompt tokens that this engine's cache lacks.
        tokens: u64,
    },
    /// Tokens came out. Those of several steps inside one [`Engine::advance`] are one event, at the time of the last;
    /// a request's first token is an event of its own.
    Tokens {
        /// How many.
        count: u64,
        /// True for the request's first token: its time is the end of prefill.
        first: bool,
    },
    /// The request lost its blocks to others and waits again, at the front.
    Preempted,
    /// All its tokens are out; it has left the engine.
    Finished,
}

/// Counters since the engine was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Prompt tokens looked up in the prefix cache, at each request's first admission.
    pub prefix_queries: u64,
    /// Of those, found.
    pub prefix_hits: u64,
    /// Preemptions.
    pub preemptions: u64,
    /// Steps ended (with [`Timing::Step`]).
    pub steps: u64,
    /// Tokens generated.
    pub generated: u64,
}

/// One simulated inference server.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    pub(crate) timing: Timing,
    pub(crate) pool: BlockPool,
    pub(crate) loras: LoraSlots,
    /// Arrived, still in the API process: (when it enters the queue, request).
    pub(crate) arriving: VecDeque<(Nanos, Sequence)>,
    pub(crate) waiting: VecDeque<Sequence>,
    /// In order of admission.
    pub(crate) running: Vec<Sequence>,
    /// Requests in the queue that have blocks: decode legs whose KV comes, or has come.
    pub(crate) pinned: usize,
    /// The step in progress, and those that will follow it without change.
    pub(crate) run: Option<Run>,
    /// Time up to which everything is computed.
    pub(crate) clock: Nanos,
    /// Femtoseconds into `clock` at which the last step ended, where another follows at once.
    pub(crate) remainder: u64,
    /// Blocks of finished prefill legs, in order of their time-out.
    pub(crate) held: VecDeque<HeldBlocks>,
    /// Adapter loads to be added to the next step, in nanoseconds.
    pub(crate) load_debt: u64,
    pub(crate) rng: Rng,
    pub(crate) stats: Stats,
    pub(crate) advances: u64,
    /// Something came from outside, or blocks were given up: somebody may be admitted before the next event.
    pub(crate) seat_freed: bool,
    /// Those who wait can do nothing before something comes from outside, or time frees blocks.
    pub(crate) stalled: bool,
    serial: u64,
}

impl Engine {
    /// An idle engine with an empty cache.
    #[must_use]
    pub fn new(mut config: EngineConfig, timing: Timing) -> Self {
        config.blocks = config.blocks.max(1);
        config.block_size = config.block_size.max(1);
        config.max_num_seqs = config.max_num_seqs.max(1);
        config.max_num_batched_tokens = config.max_num_batched_tokens.max(1);
        Self {
            pool: BlockPool::new(config.blocks),
            loras: LoraSlots::new(config.max_loras),
            rng: Rng::new(config.seed),
            timing,
            arriving: VecDeque::new(),
            waiting: VecDeque::new(),
            running: Vec::new(),
            pinned: 0,
            run: None,
            clock: Nanos(0),
            remainder: 0,
            held: VecDeque::new(),
            load_debt: 0,
            stats: Stats::default(),
            advances: 0,
            seat_freed: false,
            stalled: false,
            serial: 0,
            config,
        }
    }

    /// Hands a request over. Nothing happens to it before the next [`Engine::advance`]; call that with the same `now` first to let
    /// everything up to `now` happen without it.
    ///
    /// # Errors
    /// When it is not taken; the engine is unchanged then.
    pub fn submit(&mut self, now: Nanos, request: Request) -> Result<(), SubmitError> {
        let prompt = request.prompt_tokens.max(1);
        let output = if request.leg == Leg::Prefill { 1 } else { request.output_tokens.max(1) };
        let size = u64::from(self.config.block_size);
        let needed = prompt.saturating_add(output).div_ceil(size);
        let total = self.pool.total() as u64;
        if needed > total {
            return Err(SubmitError::TooLarge { needed, total });
        }
        if request.lora.is_some() && self.config.max_loras == 0 {
            return Err(SubmitError::NoLoraSlots);
        }
        let waiting = self.waiting.len() + self.arriving.len();
        let seats = self.config.max_num_seqs.saturating_sub(self.running.len());
        if waiting >= self.config.max_waiting.saturating_add(seats) {
            return Err(SubmitError::QueueFull { waiting });
        }
        let mut prompt_keys = request.blocks;
        prompt_keys.truncate(usize::try_from(prompt / size).unwrap_or(usize::MAX));
        self.serial += 1;
        let cached = self.pool.find(prompt_keys.iter().copied()).0.max(request.given) as u64 * size;
        let sequence = Sequence {
            id: request.id,
            serial: self.serial,
            prompt_keys,
            prompt,
            output,
            lora: request.lora,
            leg: request.leg,
            kv: Kv::of(request.leg),
            given: request.given,
            found: 0,
            uncached: if request.leg == Leg::Decode { 1 } else { prompt.saturating_sub(cached).max(1) },
            generated: 0,
            computed: 0,
            planned: 0,
            blocks: Vec::new(),
            published: 0,
            admitted: false,
            due: Nanos(0),
            open_event: (0, 0),
        };
        self.arriving.push_back((now.plus(self.config.api_overhead), sequence));
        self.stop_for_what_is_known();
        Ok(())
    }

    /// When something will happen next if nothing comes from outside; `None` = the engine is idle.
    #[must_use]
    pub fn next_event(&self) -> Option<Nanos> {
        let arrival = self.arriving.front().map(|(at, _)| *at);
        let later = arrival.into_iter().chain(self.expiry()).min();
        let queue = !self.waiting.is_empty() && !self.stalled;
        match (&self.timing, &self.run) {
            (Timing::Step(_), Some(run)) => Some(run.end()),
            (Timing::Step(_), None) if !self.running.is_empty() || queue => Some(self.clock),
            (Timing::Step(_), None) => later,
            (Timing::Latency(_), _) => {
                let now = queue && (self.running.is_empty() || self.seat_freed);
                self.running.iter().map(|s| s.due).chain(now.then_some(self.clock)).chain(later).min()
            }
        }
    }

    /// Lets everything happen that happens up to `now`, appending it to `events` in order of time per request. Being late costs no accuracy:
    /// each event carries its own time.
    pub fn advance(&mut self, now: Nanos, events: &mut Vec<Event>) {
        self.advances += 1;
        match self.timing.clone() {
            Timing::Step(costs) => self.advance_steps(&costs, now, events),
            Timing::Latency(latency) => self.advance_unbatched(&latency, now, events),
        }
        self.clock = self.clock.max(now);
        self.enter_queue(now);
        self.expire(now);
    }

    /// Takes a request out, wherever it is. False when it is not (or no longer) inside. A step in progress still takes its time.
    pub fn cancel(&mut self, id: u64) -> bool {
        if let Some(at) = self.running.iter().position(|s| s.id == id) {
            let sequence = self.running.remove(at);
            self.leave(&sequence);
            self.disturb();
            return true;
        }
        if let Some(sequence) = self.waiting.iter().position(|s| s.id == id).and_then(|at| self.waiting.remove(at)) {
            self.pinned -= usize::from(sequence.pinned());
            self.pool.release(&sequence.blocks);
            self.disturb();
            return true;
        }
        let before = self.arriving.len();
        self.arriving.retain(|(_, s)| s.id != id);
        before != self.arriving.len()
    }

    /// Something came from outside that may let somebody into the batch: the step in progress is the last of its run.
    pub(crate) fn disturb(&mut self) {
        self.seat_freed = true;
        self.stalled = false;
        if let Some(run) = &mut self.run {
            run.stop();
        }
    }

    /// Changes where durations come from. Call [`Engine::advance`] with the same `now` first.
    pub fn set_timing(&mut self, now: Nanos, timing: Timing) {
        self.clock = self.clock.max(now);
        self.run = None;
        self.remainder = 0;
        for sequence in &mut self.running {
            sequence.planned = 0;
        }
        self.timing = timing;
        if let Timing::Latency(latency) = self.timing.clone() {
            self.plan_unbatched(&latency);
        }
    }

    /// Forgets the prefix cache; false, and nothing done, while a request runs.
    pub fn reset_prefix_cache(&mut self) -> bool {
        self.pool.reset()
    }

    /// Requests in the queue.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Of those, how many wait for an adapter slot rather than for capacity.
    #[must_use]
    pub fn deferred(&self) -> usize {
        self.waiting.iter().filter(|s| s.lora.as_ref().is_some_and(|lora| !self.loras.admits(lora))).count()
    }

    /// Requests in the batch.
    #[must_use]
    pub fn running(&self) -> usize {
        self.running.len()
    }

    /// Prompt tokens still to be computed: of requests in the batch what is left, of those that wait what the cache lacked when they came.
    #[must_use]
    pub fn prefill_left(&self) -> u64 {
        let running = self.running.iter().map(|s| s.prompt.saturating_sub(s.computed));
        let waiting = self.waiting.iter().chain(self.arriving.iter().map(|(_, s)| s)).map(|s| s.uncached);
        running.chain(waiting).sum()
    }

    /// Requests inside in any state.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.running.len() + self.waiting.len() + self.arriving.len()
    }

    /// Share of KV blocks held by running requests, 0 to 1.
    #[must_use]
    pub fn kv_usage(&self) -> f64 {
        self.pool.usage()
    }

    /// The block pool.
    #[must_use]
    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// Sizes and limits.
    #[must_use]
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Adapters of running and of waiting requests, each once, sorted.
    #[must_use]
    pub fn adapters(&self) -> (Vec<Arc<str>>, Vec<Arc<str>>) {
        let names = |sequences: &mut dyn Iterator<Item = &Sequence>| {
            sequences.filter_map(|s| s.lora.clone()).collect::<BTreeSet<_>>().into_iter().collect()
        };
        (names(&mut self.running.iter()), names(&mut self.waiting.iter()))
    }

    /// Moves arrivals into the queue whose time has come.
    pub(crate) fn enter_queue(&mut self, now: Nanos) {
        while self.arriving.front().is_some_and(|(at, _)| *at <= now) {
            if let Some((_, sequence)) = self.arriving.pop_front() {
                self.waiting.push_back(sequence);
                self.stalled = false;
            }
        }
    }

    /// Gives back what a running request holds.
    pub(crate) fn leave(&mut self, sequence: &Sequence) {
        self.pool.release(&sequence.blocks);
        if let Some(lora) = &sequence.lora {
            self.loras.leave(lora);
        }
    }

    /// Takes the latest admitted request out of the batch: its blocks go, its place is the front of the queue.
    pub(crate) fn preempt_last(&mut self, events: &mut Vec<Event>) {
        let Some(mut victim) = self.running.pop() else { return };
        self.leave(&victim);
        victim.blocks.clear();
        victim.computed = 0;
        victim.planned = 0;
        victim.published = 0;
        victim.open_event = (0, 0);
        self.stats.preemptions += 1;
        events.push(Event { at: self.clock, id: victim.id, what: What::Preempted });
        self.waiting.push_front(victim);
    }

    /// Publishes what is computed and, when the request's tokens are all covered, emits one. True when that was its last. With `again` as many further
    /// steps have passed that decoded a token each; blocks for them are there.
    pub(crate) fn settle(&mut self, index: usize, again: u64, events: &mut Vec<Event>) -> bool {
        let size = u64::from(self.config.block_size);
        let sequence = &mut self.running[index];
        sequence.computed += std::mem::take(&mut sequence.planned) + again;
        sequence.publish(size, &mut self.pool);
        if sequence.computed < sequence.tokens() {
            return false;
        }
        let tokens = 1 + again;
        sequence.generated += tokens;
        self.stats.generated += tokens;
        let first = sequence.generated == 1;
        match sequence.open_event {
            (advance, at) if advance == self.advances => {
                if let Some(Event { at: time, what: What::Tokens { count, .. }, .. }) = events.get_mut(at) {
                    *time = self.clock;
                    *count += tokens;
                }
            }
            _ => {
                if !first {
                    sequence.open_event = (self.advances, events.len());
                }
                events.push(Event { at: self.clock, id: sequence.id, what: What::Tokens { count: tokens, first } });
            }
        }
        sequence.generated >= sequence.output
    }
}
