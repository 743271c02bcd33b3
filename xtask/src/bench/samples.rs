//! What a load measured: durations with their percentiles, and what went wrong.

use std::time::Duration;

use super::exchange::{Fault, Timing};

/// Durations, kept one by one: a run has some hundred thousand.
#[derive(Default)]
pub(super) struct Samples(Vec<Duration>);

impl Samples {
    /// One more.
    pub(super) fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// The duration that `share` of the samples (0 to 1) do not exceed; zero when there are none.
    pub(super) fn percentile(&mut self, share: f64) -> Duration {
        self.0.sort_unstable();
        let rank = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }
}

/// Faults by kind, with the text of the first few.
#[derive(Default)]
pub(super) struct Faults {
    /// Refused or broken.
    pub(super) failed: u64,
    /// Answered wrongly.
    pub(super) wrong: u64,
    texts: Vec<String>,
}

impl Faults {
    /// Counts one.
    pub(super) fn push(&mut self, fault: Fault) {
        let (kind, mut text) = match fault {
            Fault::Failed(text) => {
                self.failed += 1;
                ("failed", text)
            }
            Fault::Wrong(text) => {
                self.wrong += 1;
                ("wrong", text)
            }
        };
        if self.texts.len() < 5 {
            if let Some((cut, _)) = text.char_indices().nth(300) {
                text.truncate(cut);
            }
            self.texts.push(format!("{kind}: {text}"));
        }
    }

    /// All of them.
    pub(super) fn count(&self) -> u64 {
        self.failed + self.wrong
    }

    /// The first few.
    pub(super) fn texts(&self) -> &[String] {
        &self.texts
    }
}

/// What came of a load.
#[derive(Default)]
pub(super) struct Measured {
    /// Requests that ended as they must, or events that came back.
    pub(super) done: u64,
    /// From the first to the end of the last.
    pub(super) wall: Duration,
    /// From the last byte of a body to the decision.
    pub(super) decisions: Samples,
    /// From the intended start of a request (closed loop: its start) to its end; of an event, from its intended moment.
    pub(super) totals: Samples,
    /// What went wrong.
    pub(super) faults: Faults,
}

impl Measured {
    /// Takes one request's end in; `late` is how much later than intended it was started.
    pub(super) fn push(&mut self, ended: Result<Timing, Fault>, late: Duration) {
        match ended {
            Ok(timing) => {
                self.done += 1;
                self.decisions.push(timing.decision);
                self.totals.push(late + timing.total);
            }
            Err(fault) => self.faults.push(fault),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_that_were_taken() {
        let mut samples = Samples::default();
        assert_eq!(samples.percentile(0.99), Duration::ZERO);
        for millis in (1..=100).rev() {
            samples.push(Duration::from_millis(millis));
        }
        assert_eq!(samples.percentile(0.5), Duration::from_millis(50));
        assert_eq!(samples.percentile(0.99), Duration::from_millis(99));
        assert_eq!(samples.percentile(1.0), Duration::from_millis(100));
    }
}
