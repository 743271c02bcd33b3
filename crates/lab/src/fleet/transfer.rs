//! Engines that compute prompts for engines that decode, and the links between them (simulator 2.7).
//!
//! Each engine has one link. A transfer takes the link of both engines from its beginning to its end, and waits until both are free: first come, first
//! served. Only what the decode engine's cache lacks moves.

use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_sim::Leg;

use super::outcome::Sample;

/// Which engines compute prompts for others, and how the KV gets there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disaggregation {
    /// Engines with the role `prefill`, the first of the fleet; all others are `decode`. 0: roles are not told apart.
    ///
    /// Roles are labels. A router that does not read them sends whole requests to any engine, and that engine serves them.
    pub prefill_pods: usize,
    /// Bytes per second of an engine's link.
    pub link: f64,
    /// What each transfer costs before its first byte.
    pub setup: Duration,
    /// How long a prefill engine keeps blocks that nobody fetches.
    pub hold: Duration,
}

impl Default for Disaggregation {
    /// 11 GB/s is what was measured over 200 Gb/s.
    fn default() -> Self {
        Self { prefill_pods: 0, link: 11e9, setup: Duration::from_millis(1), hold: Duration::from_secs(480) }
    }
}

impl Disaggregation {
    /// Value of the label `llm-d.ai/role`, where engines have one.
    #[must_use]
    pub fn role(&self, pod: usize) -> Option<&'static str> {
        (self.prefill_pods > 0).then_some(if pod < self.prefill_pods { "prefill" } else { "decode" })
    }

    /// As a sentence, where engines have roles.
    #[must_use]
    pub fn describe(&self) -> Option<String> {
        let Self { prefill_pods, link, setup, .. } = self;
        (*prefill_pods > 0).then(|| {
            format!(
                "{prefill_pods} of the engines compute prompts for the others where a router reads roles; KV moves at {} GB/s after {} ms, first come first served on each \
                 engine's link",
                link / 1e9,
                setup.as_secs_f64() * 1e3
            )
        })
    }
}

/// The links of a fleet, each with the time until which it is taken.
#[derive(Debug)]
pub(super) struct Links {
    free: Vec<Nanos>,
    options: Disaggregation,
}

impl Links {
    pub(super) fn new(engines: usize, options: Disaggregation) -> Self {
        Self { free: vec![Nanos(0); engines], options }
    }

    /// When so many bytes are there.
    pub(super) fn send(&mut self, now: Nanos, from: usize, to: usize, bytes: f64) -> Nanos {
        let begin = now.plus(self.options.setup).max(self.free[from]).max(self.free[to]);
        let seconds = (bytes / self.options.link.max(1.0)).clamp(0.0, 1e9);
        let end = begin.plus(Duration::from_secs_f64(seconds));
        (self.free[from], self.free[to]) = (end, end);
        end
    }
}

/// What an engine does for a request.
pub(super) fn leg(sample: &Sample, pod: u32) -> Leg {
    match sample.prefill {
        None => Leg::Whole,
        Some(prefill) if prefill == pod => Leg::Prefill,
        Some(_) => Leg::Decode,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transfer_waits_for_both_links() {
        let mut links = Links::new(4, Disaggregation { link: 1e9, ..Disaggregation::default() });
        let at = |ms: u64| Nanos(ms * 1_000_000);
        assert_eq!(links.send(at(0), 0, 2, 10e6), at(11));
        assert_eq!(links.send(at(5), 1, 2, 10e6), at(21), "2 still reads");
        assert_eq!(links.send(at(5), 0, 3, 10e6), at(21), "0 still writes");
        assert_eq!(links.send(at(30), 1, 3, 0.0), at(31));
    }
}
