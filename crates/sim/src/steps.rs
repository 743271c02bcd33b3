//! Batched steps, as vLLM's v1 scheduler forms them (simulator 2.1).
//!
//! Decodes go first, then the queue's head with what is left of the token budget, so a prefill shares its step with every running
//! decode and stretches their inter-token latency. Steps that only decode, without anybody coming or going, are one [`Run`]. Many steps may end inside one
//! [`Engine::advance`]; their tokens are merged per request there, so that an owner in scaled time wakes as often as it likes, not once per step.

use pointsman_core::Nanos;

use crate::engine::{Engine, Event, What};
use crate::run::{FEMTOS, Moment, Run};
use crate::sequence::Sequence;
use crate::{StepCosts, StepShape};

impl Engine {
    pub(crate) fn advance_steps(&mut self, costs: &StepCosts, now: Nanos, events: &mut Vec<Event>) {
        loop {
            if self.run.is_some() && !self.settle_run(now, events) {
                return;
            }
            self.enter_queue(self.clock);
            self.expire(self.clock);
            let idle = self.running.is_empty() && (self.waiting.is_empty() || self.stalled);
            if idle || !self.begin_step(costs, events) {
                self.remainder = 0;
                let later = self.arriving.front().map(|(at, _)| *at).into_iter().chain(self.expiry()).min();
                match later {
                    Some(at) if at <= now => self.clock = self.clock.max(at),
                    _ => return,
                }
            }
        }
    }

    /// Forms the next batch, and says how long it will stay as it is. False when there is nothing that can be computed.
    fn begin_step(&mut self, costs: &StepCosts, events: &mut Vec<Event>) -> bool {
        let size = u64::from(self.config.block_size);
        let chunk = match self.config.long_prefill_token_threshold {
            0 => u64::MAX,
            limit => limit,
        };
        let mut budget = self.config.max_num_batched_tokens;
        let preempted_before = self.stats.preemptions;
        let mut at = 0;
        'running: while at < self.running.len() && budget > 0 {
            let sequence = &mut self.running[at];
            let need = (sequence.tokens() - sequence.computed).min(budget).min(chunk);
            let wanted = (sequence.computed + need).div_ceil(size) as usize;
            loop {
                let sequence = &mut self.running[at];
                let missing = wanted.saturating_sub(sequence.blocks.len());
                if self.pool.allocate(missing, &mut sequence.blocks) {
                    sequence.planned = need;
                    break;
                }
                self.preempt_last(events);
                if self.running.len() <= at {
                    break 'running;
                }
            }
            budget -= need;
            at += 1;
        }
        let undisturbed = self.stats.preemptions == preempted_before;
        if undisturbed {
            self.admit(budget, chunk, events);
        }
        let mut shape = StepShape::default();
        let mut decodes = 0;
        for sequence in self.running.iter().filter(|s| s.planned > 0) {
            shape.requests += 1;
            shape.tokens += sequence.planned;
            decodes += usize::from(sequence.decoding());
            if sequence.last_token() {
                shape.decode_context += sequence.computed;
            } else {
                let n = sequence.planned as f64;
                shape.prefill_pairs += n * (sequence.computed as f64 + n / 2.0);
            }
        }
        if shape.requests == 0 {
            // Blocks that others need for a transfer are all that is left; or somebody has just given up blocks, and may try again.
            self.stalled = undisturbed;
            return !undisturbed;
        }
        let load = std::mem::take(&mut self.load_debt);
        let repeats = self.config.coalesce && undisturbed && load == 0 && decodes == self.running.len();
        self.run = Some(self.run_of(costs, &shape, load, if repeats { self.steps_alike() } else { 1 }));
        self.stop_for_what_is_known();
        true
    }

    /// The run of `steps` steps that begins now with one of that shape.
    fn run_of(&mut self, costs: &StepCosts, shape: &StepShape, load: u64, steps: u64) -> Run {
        let factor = if self.loras.active() { self.config.lora_step_factor } else { 1.0 };
        let closed = self.running.len() >= self.config.max_num_seqs
            || self.running.len() as u64 >= self.config.max_num_batched_tokens
            || self.waiting.iter().any(|s| !self.passed_over(s));
        let start = Moment::new(self.clock, self.remainder);
        let run = |factor: f64, steps: u64| {
            let (first, per_context_token) = costs.femtos(shape, factor);
            let growth = per_context_token.saturating_mul(shape.requests);
            Run::new(start, first.saturating_add(load.saturating_mul(FEMTOS)), growth, steps, closed)
        };
        if costs.noise <= 0.0 {
            return run(factor, steps);
        }
        // One draw for the mean of all steps, as many as there will be by what is known now.
        self.run = Some(run(factor, steps));
        self.stop_for_what_is_known();
        let likely = self.run.map_or(1, |run| run.steps);
        run(factor * self.rng.lognormal_factor(costs.noise / (likely as f64).sqrt()), steps)
    }

    /// Steps for which a batch that only decodes stays as it is: until somebody finishes, or blocks run out.
    fn steps_alike(&self) -> u64 {
        let size = u64::from(self.config.block_size);
        let steps = self.running.iter().map(|s| s.output - s.generated).min().unwrap_or(1);
        let fits = |steps: u64| {
            let needed = |s: &Sequence| (s.computed + steps).div_ceil(size).saturating_sub(s.blocks.len() as u64);
            self.running.iter().map(needed).sum::<u64>() <= self.pool.free() as u64
        };
        if fits(steps) {
            return steps;
        }
        // Blocks for one are there.
        let (mut fit, mut over) = (1, steps);
        while over - fit > 1 {
            let middle = fit + (over - fit) / 2;
            if fits(middle) { fit = middle } else { over = middle }
        }
        fit
    }

    /// Ends the run with the step during which somebody comes who may be admitted, or blocks are given up.
    pub(crate) fn stop_for_what_is_known(&mut self) {
        let expiry = self.expiry();
        let Some(run) = &mut self.run else { return };
        let arrival = self.arriving.front().filter(|_| !run.closed).map(|(at, _)| *at);
        if let Some(at) = arrival.into_iter().chain(expiry).min() {
            run.stop_at(at);
        }
    }

    /// Ends the steps of the run that are over at `now`. True when those are all.
    fn settle_run(&mut self, now: Nanos, events: &mut Vec<Event>) -> bool {
        let Some(mut run) = self.run else { return true };
        let over = run.over(now);
        let last = over == run.steps;
        let alike = (over - run.done).saturating_sub(u64::from(last));
        if alike > 0 {
            run.done += alike;
            self.clock = run.end_of(run.done).nanos();
            self.end_steps_alike(alike, events);
        }
        if last {
            let end = run.end_of(run.steps);
            (self.clock, self.remainder) = (end.nanos(), end.femtos());
            self.run = None;
            self.end_step(events);
        } else {
            self.run = Some(run);
        }
        last
    }

    /// Ends steps in which everybody decoded one token and nobody finished, and begins the next one like them.
    fn end_steps_alike(&mut self, steps: u64, events: &mut Vec<Event>) {
        let size = u64::from(self.config.block_size);
        self.stats.steps += steps;
        for at in 0..self.running.len() {
            let sequence = &mut self.running[at];
            let wanted = (sequence.computed + steps + 1).div_ceil(size) as usize;
            let missing = wanted.saturating_sub(sequence.blocks.len());
            let enough = self.pool.allocate(missing, &mut sequence.blocks);
            debug_assert!(enough, "a run is no longer than its blocks last");
            self.settle(at, steps - 1, events);
            self.running[at].planned = 1;
        }
    }

    fn end_step(&mut self, events: &mut Vec<Event>) {
        self.stats.steps += 1;
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].planned > 0 && self.settle(at, 0, events) {
                let done = self.running.remove(at);
                events.push(Event { at: self.clock, id: done.id, what: What::Finished });
                self.finish(done);
            } else {
                at += 1;
            }
        }
    }
}
