//! Which weights serve this traffic best? Successive halving: many candidates meet few seeds, the better half meets twice as many, and so on.
//!
//! As with a race, the owner runs what a round asks for. Candidates of one round meet the same seeds, so that they are compared pair by pair. The winner is judged
//! on seeds, or on a part of the trace, that no round has seen: otherwise the best of many would look better than it is.

use std::fmt::Write as _;
use std::sync::Arc;

use pointsman_plugins::presets::PRESETS;
use pointsman_sim::Rng;

use crate::metrics::{Estimate, estimate};
use crate::policy::Choice;
use crate::race::Done;

/// Scorers whose weights are sought, with what the configuration that `serve` has gives them.
pub const SCORERS: [(&str, f64); 5] = [
    ("prefix-cache-scorer", 3.0),
    ("kv-cache-utilization-scorer", 2.0),
    ("queue-scorer", 2.0),
    ("active-request-scorer", 2.0),
    ("lora-affinity-scorer", 0.0),
];

/// What is to be best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objective {
    /// 95th percentile of the time to first token; less is better.
    TtftP95,
    /// Requests per second that keep the service level.
    Goodput,
    /// Share of prompt tokens found in caches.
    HitRate,
}

impl Objective {
    /// The metric's name.
    #[must_use]
    pub fn metric(self) -> &'static str {
        match self {
            Self::TtftP95 => "ttft_p95",
            Self::Goodput => "goodput",
            Self::HitRate => "hit_ratio",
        }
    }

    /// Whether more is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        self != Self::TtftP95
    }

    /// Whether `a` is better than `b`.
    #[must_use]
    pub fn better(self, a: f64, b: f64) -> bool {
        if self.more_is_better() { a > b } else { a < b }
    }
}

/// Weights of [`SCORERS`], 0 leaves one out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights(pub [f64; 5]);

impl Weights {
    /// Those of the configuration that `serve` has.
    #[must_use]
    pub fn of_default() -> Self {
        Self(SCORERS.map(|(_, weight)| weight))
    }

    /// Weights at random: each is left out one time in six, else log-uniform from 0.1 to 10. At least one is there.
    #[must_use]
    pub fn random(rng: &mut Rng, lora: bool) -> Self {
        loop {
            let mut weights = [0.0; 5];
            for (at, weight) in weights.iter_mut().enumerate() {
                let there = rng.unit() > 1.0 / 6.0;
                let drawn = (10.0_f64).powf(rng.unit() * 2.0 - 1.0);
                *weight = if there && (at < 4 || lora) { (drawn * 100.0).round() / 100.0 } else { 0.0 };
            }
            if weights.iter().any(|w| *w > 0.0) {
                return Self(weights);
            }
        }
    }

    /// The same with one weight multiplied.
    #[must_use]
    pub fn scaled(mut self, which: usize, factor: f64) -> Self {
        self.0[which] *= factor;
        self
    }

    /// `prefix 3.2, kv-cache 0.8, queue 2`.
    #[must_use]
    pub fn short(&self) -> String {
        let name = |at: usize| ["prefix", "kv-cache", "queue", "active", "lora"][at];
        let parts: Vec<String> = self
            .0
            .iter()
            .enumerate()
            .filter(|(_, w)| **w > 0.0)
            .map(|(at, w)| format!("{} {}", name(at), rounded(*w)))
            .collect();
        parts.join(", ")
    }

    /// A complete `EndpointPickerConfig`.
    #[must_use]
    pub fn document(&self) -> String {
        let used = || SCORERS.iter().zip(self.0).filter(|(_, weight)| *weight > 0.0);
        let mut out = String::from("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n");
        for ((name, _), _) in used() {
            let _ = writeln!(out, "- type: {name}");
        }
        out += "- type: max-score-picker\nschedulingProfiles:\n- name: default\n  plugins:\n";
        for ((name, _), weight) in used() {
            let _ = writeln!(out, "  - pluginRef: {name}\n    weight: {}", rounded(weight));
        }
        out + "  - pluginRef: max-score-picker\n"
    }

    /// As a policy under its short name.
    #[must_use]
    pub fn choice(&self) -> Choice {
        Choice::document(Arc::<str>::from(self.short()), self.document().into_bytes())
    }
}

fn rounded(weight: f64) -> f64 {
    (weight * 1_000.0).round() / 1_000.0
}

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    objective: Objective,
    left: Vec<Weights>,
    /// Seeds of the next round.
    seeds: u64,
    after: u64,
    tried: usize,
}

/// What a round asks for.
#[derive(Clone, Debug)]
pub struct Round {
    /// Who meets.
    pub candidates: Vec<Weights>,
    /// How many seeds.
    pub seeds: u64,
    /// Seeds before the first.
    pub after: u64,
}

impl Search {
    /// `count` candidates: the default's weights, those of the presets, and random ones that follow from `seed`. `lora`: adapters play a part.
    #[must_use]
    pub fn new(objective: Objective, count: usize, lora: bool, seed: u64) -> Self {
        let mut rng = Rng::new(crate::mix(seed ^ 0x7475_6e65));
        let presets =
            PRESETS.iter().map(|p| Weights([p.prefix, p.kv_cache, p.queue, 0.0, if lora { p.lora } else { 0.0 }]));
        let mut left: Vec<Weights> = std::iter::once(Weights::of_default()).chain(presets).collect();
        while left.len() < count {
            left.push(Weights::random(&mut rng, lora));
        }
        left.truncate(count.max(1));
        Self { objective, tried: left.len(), left, seeds: 1, after: 0 }
    }

    /// Candidates that were made.
    #[must_use]
    pub fn tried(&self) -> usize {
        self.tried
    }

    /// The next round; `None` when the winner is known.
    #[must_use]
    pub fn round(&self) -> Option<Round> {
        (self.left.len() > 1).then(|| Round { candidates: self.left.clone(), seeds: self.seeds, after: self.after })
    }

    /// Takes what a round came to: the better half stays, in the order of their means. A candidate without runs leaves.
    pub fn tell(&mut self, done: &[Done]) {
        let score = |which: usize| {
            let values: Vec<f64> = done
                .iter()
                .filter(|d| !d.cut && d.job.choice == which)
                .map(|d| d.summary.get(self.objective.metric()))
                .collect();
            (!values.is_empty()).then(|| estimate(&values).mean)
        };
        let mut scored: Vec<(f64, Weights)> =
            self.left.iter().enumerate().filter_map(|(at, weights)| Some((score(at)?, *weights))).collect();
        let sign = if self.objective.more_is_better() { -1.0 } else { 1.0 };
        scored.sort_by(|a, b| (sign * a.0).total_cmp(&(sign * b.0)));
        let keep = self.left.len().div_ceil(2);
        if !scored.is_empty() {
            self.left = scored.into_iter().take(keep).map(|(_, weights)| weights).collect();
        }
        if keep == 1 {
            self.left.truncate(1);
        }
        self.after += self.seeds;
        self.seeds = (self.seeds * 2).min(8);
    }

    /// The best so far.
    #[must_use]
    pub fn best(&self) -> Weights {
        self.left.first().copied().unwrap_or_else(Weights::of_default)
    }

    /// Seeds that rounds have used.
    #[must_use]
    pub fn used_seeds(&self) -> u64 {
        self.after
    }
}

/// What a gain is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Better by more than chance.
    Better,
    /// Worse by more than chance.
    Worse,
    /// No difference that the seeds could show.
    Noise,
}

/// Judges a difference (winner minus other) in the objective.
#[must_use]
pub fn verdict(objective: Objective, difference: Estimate) -> Verdict {
    match (difference.is_real(), objective.better(difference.mean, 0.0)) {
        (false, _) => Verdict::Noise,
        (true, true) => Verdict::Better,
        (true, false) => Verdict::Worse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::FleetOptions;
    use crate::metrics::Slo;
    use crate::race::{Race, Source};
    use crate::workload::Spec;

    #[test]
    fn every_candidate_is_a_document_without_faults() {
        let search = Search::new(Objective::TtftP95, 60, true, 1);
        for weights in search.round().expect("60").candidates {
            let fleet = FleetOptions::default();
            assert!(weights.choice().make(&fleet, 1).is_ok(), "{}", weights.document());
        }
    }

    #[test]
    fn a_search_for_hits_ends_with_weights_that_follow_the_prefix() {
        let mut search = Search::new(Objective::HitRate, 16, false, 1);
        let spec = Spec::parse("shared-prefix:groups=16,requests=120,rate=20").expect("fine");
        while let Some(round) = search.round() {
            let choices = round.candidates.iter().map(Weights::choice).collect();
            let race = Race {
                source: Source::Made(Box::new(spec.clone())),
                fleet: FleetOptions::default(),
                choices,
                seeds: round.seeds,
                after: round.after,
                slo: Slo::default(),
                rate: None,
                sweep: None,
            };
            search.tell(&race.run_all().expect("no faults"));
        }
        let Weights([prefix, others @ ..]) = search.best();
        assert!(prefix > others.iter().sum::<f64>() * 0.2, "{:?}", search.best());
    }

    #[test]
    fn a_difference_within_its_interval_is_noise() {
        let of = |mean, ci| verdict(Objective::TtftP95, Estimate { mean, ci });
        assert_eq!(
            [of(-1.0, Some(2.0)), of(-1.0, Some(0.5)), of(1.0, Some(0.5)), of(-1.0, None)],
            [Verdict::Noise, Verdict::Better, Verdict::Worse, Verdict::Noise]
        );
    }
}
