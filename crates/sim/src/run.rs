//! Steps that follow each other without change, as one jump (simulator 2.6): while a batch only decodes, every step reads one token of context more per
//! request than the one before, so each is longer by the same amount and their sum has a closed form.
//!
//! Times are whole femtoseconds: the steps of a run end exactly where the same steps end when they are taken one by one.

use pointsman_core::Nanos;

/// Femtoseconds in a nanosecond.
pub(crate) const FEMTOS: u64 = 1_000_000;

/// A moment between two nanoseconds, so that rounding does not add up over steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u128);

impl Moment {
    pub(crate) fn new(at: Nanos, femtos: u64) -> Self {
        Self(u128::from(at.0) * u128::from(FEMTOS) + u128::from(femtos))
    }

    /// The nanosecond it lies in.
    pub(crate) fn nanos(self) -> Nanos {
        Nanos(u64::try_from(self.0 / u128::from(FEMTOS)).unwrap_or(u64::MAX))
    }

    /// Femtoseconds into that nanosecond.
    pub(crate) fn femtos(self) -> u64 {
        (self.0 % u128::from(FEMTOS)) as u64
    }
}

/// One or more steps, the first of which has begun.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    start: Moment,
    /// Femtoseconds of the first step.
    first: u64,
    /// Femtoseconds by which each step is longer than the one before.
    growth: u64,
    /// Steps, at least 1.
    pub(crate) steps: u64,
    /// Of those, over and settled.
    pub(crate) done: u64,
    /// Whoever comes meanwhile cannot be admitted: the queue's head finds no seat, no budget or no blocks, and will not before the run ends.
    pub(crate) closed: bool,
}

impl Run {
    pub(crate) fn new(start: Moment, first: u64, growth: u64, steps: u64, closed: bool) -> Self {
        Self { start, first: first.max(FEMTOS), growth, steps: steps.max(1), done: 0, closed }
    }

    /// When the step of that number ends, counted from 1.
    pub(crate) fn end_of(&self, step: u64) -> Moment {
        let k = u128::from(step);
        Moment(self.start.0 + k * u128::from(self.first) + u128::from(self.growth) * (k * k.saturating_sub(1) / 2))
    }

    /// When all are over.
    pub(crate) fn end(&self) -> Nanos {
        self.end_of(self.steps).nanos()
    }

    /// Steps that are over at `now`.
    pub(crate) fn over(&self, now: Nanos) -> u64 {
        self.ended_before(Moment::new(Nanos(now.0.saturating_add(1)), 0))
    }

    /// Ends with the first step that ends at `at` or later, if it would end after that one.
    pub(crate) fn stop_at(&mut self, at: Nanos) {
        self.stop_after(self.ended_before(Moment::new(at, 0)));
    }

    /// Ends with the step in progress.
    pub(crate) fn stop(&mut self) {
        self.stop_after(self.done);
    }

    fn stop_after(&mut self, steps: u64) {
        self.steps = self.steps.min(steps.max(self.done) + 1);
    }

    /// Steps that end before `limit`, those known to be over at the least.
    fn ended_before(&self, limit: Moment) -> u64 {
        if self.end_of(self.done + 1) >= limit {
            return self.done;
        }
        if self.end_of(self.steps) < limit {
            return self.steps;
        }
        // From k * first + growth * k * (k - 1) / 2 = span; then a step to either side, for what floating point loses.
        let (span, growth) = ((limit.0 - self.start.0) as f64, self.growth as f64);
        let linear = self.first as f64 - growth / 2.0;
        let root = (linear * linear + 2.0 * growth * span).sqrt();
        let mut steps = ((2.0 * span / (linear + root)) as u64).clamp(self.done, self.steps);
        while steps < self.steps && self.end_of(steps + 1) < limit {
            steps += 1;
        }
        while steps > self.done && self.end_of(steps) >= limit {
            steps -= 1;
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The closed forms against adding up.
        #[test]
        fn the_step_in_progress_is_found_wherever_one_looks(
            first in 1_u64..50_000_000_000, growth in 0_u64..1_000_000_000, steps in 1_u64..400, at in 0_u64..40_000_000, femtos in 0..FEMTOS,
        ) {
            let start = Moment::new(Nanos(1_000), femtos);
            let run = Run::new(start, first, growth, steps, false);
            let (mut end, mut step) = (start.0, u128::from(first.max(FEMTOS)));
            let mut over = 0;
            for k in 1..=steps {
                end += step;
                step += u128::from(growth);
                prop_assert_eq!(run.end_of(k).0, end);
                over += u64::from(Moment(end).nanos().0 <= at);
            }
            prop_assert_eq!(run.over(Nanos(at)), over);
            let mut stopped = run;
            stopped.stop_at(Nanos(at));
            let reached = (1..=steps).find(|&k| run.end_of(k).nanos().0 >= at).unwrap_or(steps);
            prop_assert_eq!(stopped.steps, reached);
        }
    }
}
