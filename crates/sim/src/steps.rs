//! Batched steps, as vLLM's v1 scheduler forms them (simulator 2.1).
//!
//! Decodes go first, then the queue's head with what is left of the token budget, so a prefill shares its step with every running
//! decode and stretches their inter-token latency. Many steps may end inside one [`Engine::advance`]; their tokens are merged per
//! request there, so that an owner in scaled time wakes as often as it likes, not once per step.

use pointsman_core::Nanos;

use crate::engine::{Engine, Event, What};
use crate::{StepCosts, StepShape};

impl Engine {
    pub(crate) fn advance_steps(&mut self, costs: &StepCosts, now: Nanos, events: &mut Vec<Event>) {
        loop {
            if let Some(end) = self.step_end {
                if end > now {
                    return;
                }
                self.clock = end;
                self.step_end = None;
                self.end_step(events);
            }
            self.enter_queue(self.clock);
            if self.running.is_empty() && self.waiting.is_empty() {
                match self.arriving.front() {
                    Some(&(at, _)) if at <= now => self.clock = self.clock.max(at),
                    _ => return,
                }
                self.enter_queue(self.clock);
            }
            if !self.begin_step(costs, events) {
                debug_assert!(false, "an empty batch can always take the queue's head");
                return;
            }
        }
    }

    /// Forms the next batch. False when there is nothing to compute.
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
        if self.stats.preemptions == preempted_before {
            self.admit(budget, chunk, events);
        }
        let mut shape = StepShape::default();
        for sequence in self.running.iter().filter(|s| s.planned > 0) {
            shape.requests += 1;
            shape.tokens += sequence.planned;
            if sequence.decoding() {
                shape.decode_context += sequence.computed;
            } else {
                let n = sequence.planned as f64;
                shape.prefill_pairs += n * (sequence.computed as f64 + n / 2.0);
            }
        }
        if shape.requests == 0 {
            return false;
        }
        let factor = if self.loras.active() { self.config.lora_step_factor } else { 1.0 };
        let nanos = costs.nanos(&shape, factor, &mut self.rng).saturating_add(std::mem::take(&mut self.load_debt));
        self.step_end = Some(Nanos(self.clock.0.saturating_add(nanos)));
        true
    }

    fn end_step(&mut self, events: &mut Vec<Event>) {
        self.stats.steps += 1;
        let mut at = 0;
        while at < self.running.len() {
            if self.running[at].planned > 0 && self.settle(at, events) {
                let done = self.running.remove(at);
                self.leave(&done);
                events.push(Event { at: self.clock, id: done.id, what: What::Finished });
            } else {
                at += 1;
            }
        }
    }
}
