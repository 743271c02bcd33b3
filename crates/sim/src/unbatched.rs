//! Requests timed one by one ([`Latency`]): each occupies a seat, gets its first token after one draw and the others after further draws.
//!
//! Seats, queue, adapters, blocks and prefix cache are the same as with batched steps; only durations differ.

use pointsman_core::Nanos;

use crate::Latency;
use crate::engine::{Engine, Event, What};
use crate::legs::Leg;

impl Engine {
    pub(crate) fn advance_unbatched(&mut self, latency: &Latency, now: Nanos, events: &mut Vec<Event>) {
        loop {
            if (self.running.is_empty() || std::mem::take(&mut self.seat_freed)) && !self.waiting.is_empty() {
                self.admit_unbatched(latency, events);
                self.stalled = self.running.is_empty();
            }
            let due = self.running.iter().enumerate().min_by_key(|(_, s)| s.due).map(|(at, s)| (s.due, at));
            let arrival = self.arriving.front().map(|(at, _)| *at);
            match (due, arrival) {
                (due, Some(at)) if at <= now && due.is_none_or(|(due, _)| at <= due) => {
                    self.clock = self.clock.max(at);
                    self.enter_queue(self.clock);
                    self.admit_unbatched(latency, events);
                }
                (Some((due, at)), _) if due <= now => {
                    self.clock = self.clock.max(due);
                    self.emit_unbatched(latency, at, events);
                }
                _ => return,
            }
        }
    }

    /// Gives running requests a due time after a change of timing.
    pub(crate) fn plan_unbatched(&mut self, latency: &Latency) {
        let load = latency.load(self.running.len(), self.config.max_num_seqs);
        for sequence in &mut self.running {
            sequence.planned = sequence.tokens() - sequence.computed;
            let nanos = if sequence.decoding() {
                latency.next_token(load, &mut self.rng)
            } else {
                latency.first_token(sequence.planned, load, &mut self.rng)
            };
            sequence.due = Nanos(self.clock.0.saturating_add(nanos));
        }
        // Blocks of a chunk not yet computed may be missing; whoever cannot get them waits again.
        let mut at = 0;
        while at < self.running.len() {
            if self.blocks_for_all_tokens(at, &mut Vec::new()) {
                at += 1;
            }
        }
    }

    fn admit_unbatched(&mut self, latency: &Latency, events: &mut Vec<Event>) {
        for _ in 0..self.config.max_num_seqs {
            // One at a time, so that each sees the load that includes itself and those before it.
            let seats = self.running.len();
            if self.admit_one(events) == 0 {
                break;
            }
            let load = latency.load(seats + 1, self.config.max_num_seqs);
            let loading = std::mem::take(&mut self.load_debt);
            let sequence = &mut self.running[seats];
            // What came from another engine took its time before.
            let nanos = match sequence.leg {
                Leg::Decode if sequence.last_token() => 0,
                _ => latency.first_token(sequence.planned, load, &mut self.rng),
            };
            sequence.due = Nanos(self.clock.0.saturating_add(nanos).saturating_add(loading));
        }
    }

    fn admit_one(&mut self, events: &mut Vec<Event>) -> usize {
        let seats = self.config.max_num_seqs;
        if self.running.len() >= seats {
            return 0;
        }
        self.config.max_num_seqs = self.running.len() + 1;
        let admitted = self.admit(u64::MAX, u64::MAX, events);
        self.config.max_num_seqs = seats;
        admitted
    }

    fn emit_unbatched(&mut self, latency: &Latency, at: usize, events: &mut Vec<Event>) {
        if self.settle(at, 0, events) {
            let done = self.running.remove(at);
            events.push(Event { at: self.clock, id: done.id, what: What::Finished });
            self.finish(done);
            self.admit_unbatched(latency, events);
            return;
        }
        if !self.blocks_for_all_tokens(at, events) {
            return;
        }
        let load = latency.load(self.running.len(), self.config.max_num_seqs);
        let sequence = &mut self.running[at];
        sequence.planned = sequence.tokens() - sequence.computed;
        let nanos = latency.next_token(load, &mut self.rng);
        sequence.due = Nanos(self.clock.0.saturating_add(nanos));
    }

    /// Allocates what the request at `at` needs for all its tokens, preempting the latest admitted. False when that was the request itself.
    fn blocks_for_all_tokens(&mut self, at: usize, events: &mut Vec<Event>) -> bool {
        let size = u64::from(self.config.block_size);
        loop {
            let Some(sequence) = self.running.get_mut(at) else { return false };
            let missing = (sequence.tokens().div_ceil(size) as usize).saturating_sub(sequence.blocks.len());
            if self.pool.allocate(missing, &mut sequence.blocks) {
                return true;
            }
            self.preempt_last(events);
        }
    }
}
