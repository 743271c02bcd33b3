//! Groups of prompts with a common beginning (simulator 3.3): system prompts, documents, few-shot examples.

use pointsman_core::Nanos;
use pointsman_sim::Rng;

use super::{Arrival, Arrivals, Lengths, Prompt, When, Workload};
use crate::mix;

/// What follows once every prompt of every group was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All prompts again, in the same order, as inference-perf does: from then on even questions are hits.
    Cycle,
    /// Questions that nobody asked before.
    Fresh,
}

/// Some seconds of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stage {
    /// How requests come.
    pub arrivals: Arrivals,
    /// How many.
    pub requests: usize,
}

/// Parameters of the workload.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedPrefix {
    /// Groups.
    pub groups: usize,
    /// Prompts of a group.
    pub prompts: usize,
    /// Tokens that a group's prompts have in common.
    pub system: u64,
    /// Tokens of a question.
    pub question: Lengths,
    /// Tokens of an answer.
    pub output: Lengths,
    /// Popularity of groups: 0 = all alike, in a shuffled cycle over all prompts; above, drawn from a Zipf distribution of that exponent.
    pub zipf: f64,
    /// Group after group instead of shuffled.
    pub group_major: bool,
    /// What follows the last prompt.
    pub ending: Ending,
    /// Each begins when the one before has drained.
    pub stages: Vec<Stage>,
    /// Adapters that groups take in turn; 0 = none.
    pub loras: usize,
    /// First requests that are not counted.
    pub warm: usize,
}

impl Default for SharedPrefix {
    fn default() -> Self {
        Self {
            groups: 10,
            prompts: 10,
            system: 2_048,
            question: Lengths::Fixed(256),
            output: Lengths::Fixed(128),
            zipf: 0.0,
            group_major: false,
            ending: Ending::Fresh,
            stages: vec![Stage { arrivals: Arrivals::Poisson { rate: 10.0 }, requests: 100 }],
            loras: 0,
            warm: 0,
        }
    }
}

/// Tokens per id of a prompt.
const UNIT: u32 = 64;

impl SharedPrefix {
    /// Prompts and requests, and ids of their content.
    pub(super) fn size(&self) -> (f64, f64) {
        let requests: f64 = self.stages.iter().map(|stage| stage.requests as f64).sum();
        let prompts = self.groups as f64 * self.prompts as f64;
        (requests.max(prompts), requests * (self.system as f64 + self.question.mean()) / f64::from(UNIT))
    }

    /// The workload of one seed.
    #[must_use]
    pub fn generate(&self, name: &str, seed: u64) -> Workload {
        let (groups, prompts) = (self.groups.max(1), self.prompts.max(1));
        let mut arrivals = Rng::new(mix(seed ^ 1));
        let mut lengths = Rng::new(mix(seed ^ 2));
        let mut order = Rng::new(mix(seed ^ 3));
        // Lengths of a cycled prompt are its own.
        let shapes: Vec<(u64, u64)> = (0..groups * prompts)
            .map(|_| (self.question.draw(&mut lengths), self.output.draw(&mut lengths).max(1)))
            .collect();
        let mut cycle: Vec<usize> = (0..groups * prompts).collect();
        if !self.group_major {
            shuffle(&mut cycle, &mut order);
        }
        let zipf = Zipf::new(groups, self.zipf);
        let mut requests = Vec::new();
        let mut stages = Vec::new();
        for stage in &self.stages {
            stages.push(requests.len());
            for at in stage.arrivals.times(stage.requests, &mut arrivals) {
                let number = requests.len();
                let which = if self.zipf > 0.0 {
                    zipf.draw(&mut order) * prompts + order.between(0, prompts as u64 - 1) as usize
                } else {
                    cycle[number % cycle.len()]
                };
                let group = which / prompts;
                let fresh = self.ending == Ending::Fresh && (number >= cycle.len() || self.zipf > 0.0);
                let (question, output) = if fresh {
                    (self.question.draw(&mut lengths), self.output.draw(&mut lengths).max(1))
                } else {
                    shapes[which]
                };
                let own = if fresh { number as u64 | 1 << 40 } else { which as u64 };
                let lora = (self.loras > 0).then(|| format!("lora-{}", group % self.loras).into());
                requests.push(Arrival {
                    when: When::At(Nanos(at.0)),
                    prompt: grouped(seed, group as u64, self.system, own, question),
                    output,
                    session: Some(group as u64),
                    lora,
                });
            }
        }
        if stages.is_empty() {
            stages.push(0);
        }
        Workload { name: name.to_owned(), requests, stages, warm: self.warm, unanswered: 0 }
    }
}

/// A prompt of a group's beginning and something of its own.
fn grouped(seed: u64, group: u64, system: u64, own: u64, question: u64) -> Prompt {
    let tokens = (system + question).max(1);
    let unit = u64::from(UNIT);
    let ids = (0..tokens.div_ceil(unit)).map(|at| {
        let common = (at + 1) * unit <= system;
        let node = mix(mix(seed ^ 0x67_72_6f_75_70) ^ group);
        mix(if common { node ^ at } else { mix(node ^ 0x6f_77_6e ^ own << 8) ^ at })
    });
    Prompt { tokens, unit: UNIT, ids: ids.collect() }
}

/// Fisher and Yates.
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for at in (1..items.len()).rev() {
        items.swap(at, rng.between(0, at as u64) as usize);
    }
}

/// Numbers from 0 with a probability that falls as a power of their rank.
pub(crate) struct Zipf(Vec<f64>);

impl Zipf {
    pub(crate) fn new(count: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=count.max(1)).map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        });
        Self(weights.collect())
    }

    pub(crate) fn draw(&self, rng: &mut Rng) -> usize {
        let at = rng.unit() * self.0.last().copied().unwrap_or(1.0);
        self.0.partition_point(|sum| *sum <= at).min(self.0.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::sharing;

    fn of(change: impl FnOnce(&mut SharedPrefix)) -> Workload {
        let mut workload = SharedPrefix { groups: 5, prompts: 4, ..SharedPrefix::default() };
        change(&mut workload);
        workload.generate("test", 7)
    }

    #[test]
    fn one_seed_makes_one_workload() {
        assert_eq!(of(|_| ()), of(|_| ()));
        assert_ne!(of(|_| ()), SharedPrefix { groups: 5, prompts: 4, ..SharedPrefix::default() }.generate("test", 8));
    }

    #[test]
    fn all_but_the_first_of_a_group_share_its_beginning() {
        let sharing = sharing(&of(|_| ()), 64, false);
        // 100 requests of 36 blocks; 95 find the 32 of their group.
        assert_eq!((sharing.blocks, sharing.hits), (3_600, 95 * 32));
    }

    #[test]
    fn a_cycle_makes_questions_into_hits() {
        let sharing = sharing(&of(|w| w.ending = Ending::Cycle), 64, false);
        assert_eq!(sharing.hits, 15 * 32 + 80 * 36);
    }

    #[test]
    fn popular_groups_come_more_often() {
        let workload = of(|w| w.zipf = 1.2);
        let first = workload.requests.iter().filter(|r| r.session == Some(0)).count();
        let last = workload.requests.iter().filter(|r| r.session == Some(4)).count();
        assert!(first > 2 * last, "{first} {last}");
    }
}
