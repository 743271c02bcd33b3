//! What may change, and one way to set it.

use std::fmt::Write as _;
use std::sync::Arc;

use pointsman_plugins::presets::PRESETS;
use pointsman_sim::Rng;

use crate::fleet::FleetOptions;
use crate::policy::Choice;

/// Scorers whose weights are sought: type, short name, and the weight in the configuration that `serve` has.
pub const SCORERS: [(&str, &str, f64); 5] = [
    ("prefix-cache-scorer", "prefix", 3.0),
    ("kv-cache-utilization-scorer", "kv-cache", 2.0),
    ("queue-scorer", "queue", 2.0),
    ("active-request-scorer", "active", 2.0),
    ("lora-affinity-scorer", "lora", 0.0),
];

/// A parameter that may be sought beside weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// Name.
    pub name: &'static str,
    /// What it is.
    pub doc: &'static str,
    /// Values that are tried beside the default.
    pub values: &'static [f64],
    /// Number of the scorer in [`SCORERS`] without which it does nothing.
    scorer: usize,
}

/// All of them, in the order in which [`Space::document`] takes them apart.
pub const KNOBS: [Knob; 4] = [
    Knob {
        name: "index-size",
        doc: "blocks that the prefix index remembers of an engine (lruCapacityPerServer), as a share of what the engine holds",
        values: &[0.125, 0.25, 0.5, 2.0, 4.0],
        scorer: 0,
    },
    Knob {
        name: "block-size",
        doc: "tokens in a block of the prefix index (blockSizeTokens)",
        values: &[64.0, 128.0, 256.0, 512.0, 1024.0],
        scorer: 0,
    },
    Knob {
        name: "match-length",
        doc: "weight of a match's length against its share of the prompt (matchLengthWeight)",
        values: &[0.25, 0.5, 0.75, 1.0],
        scorer: 0,
    },
    Knob {
        name: "idle-threshold",
        doc: "requests in flight up to which an engine counts as idle (idleThreshold)",
        values: &[1.0, 2.0, 4.0, 8.0],
        scorer: 3,
    },
];

/// What may change, on which engines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Space {
    /// Adapters play a part.
    pub lora: bool,
    /// Numbers of the [`KNOBS`] that are sought.
    pub knobs: Vec<usize>,
    /// Tokens that an engine's cache holds.
    cache_tokens: u64,
    /// Tokens in a block of the prefix index that follows the engines.
    block: u64,
}

/// One way to set what may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Of [`SCORERS`]; 0 leaves one out.
    pub weights: [f64; 5],
    /// Of [`KNOBS`]; `None` leaves the default.
    pub knobs: [Option<f64>; 4],
}

impl Candidate {
    /// The configuration that `serve` has.
    #[must_use]
    pub fn of_default() -> Self {
        Self { weights: SCORERS.map(|(.., weight)| weight), knobs: [None; 4] }
    }

    /// The same with one weight multiplied; `None` when no scorer is left.
    #[must_use]
    pub fn scaled(mut self, which: usize, factor: f64) -> Option<Self> {
        *self.weights.get_mut(which)? *= factor;
        self.weights.iter().any(|w| *w > 0.0).then_some(self)
    }

    /// The same with the default of one parameter; `None` when it has that.
    #[must_use]
    pub fn without(mut self, knob: usize) -> Option<Self> {
        self.knobs.get_mut(knob)?.take().map(|_| self)
    }

    /// `prefix 3.2, queue 2, block-size 128`.
    #[must_use]
    pub fn short(&self) -> String {
        let weights = SCORERS.iter().zip(self.weights).filter(|(_, w)| *w > 0.0);
        let weights = weights.map(|((_, name, _), w)| format!("{name} {}", rounded(w)));
        let knobs = KNOBS.iter().zip(self.knobs).filter_map(|(knob, value)| Some(format!("{} {}", knob.name, value?)));
        weights.chain(knobs).collect::<Vec<_>>().join(", ")
    }
}

impl Space {
    /// Weights, and the knobs of those numbers, for such a fleet.
    #[must_use]
    pub fn new(lora: bool, knobs: Vec<usize>, fleet: &FleetOptions) -> Self {
        let block = u64::from(fleet.block_size);
        Self { lora, knobs, cache_tokens: u64::from(fleet.blocks()) * block, block: block.max(64) }
    }

    /// The default, the presets, and ones at random up to `count`, at least the default.
    pub(super) fn candidates(&self, count: usize, rng: &mut Rng) -> Vec<Candidate> {
        let presets = PRESETS.iter().map(|p| Candidate {
            weights: [p.prefix, p.kv_cache, p.queue, 0.0, if self.lora { p.lora } else { 0.0 }],
            knobs: [None; 4],
        });
        let mut all: Vec<Candidate> = std::iter::once(Candidate::of_default()).chain(presets).collect();
        while all.len() < count {
            all.push(self.random(rng));
        }
        all.truncate(count.max(1));
        all
    }

    /// Each weight is left out one time in six, else log-uniform from 0.1 to 10; at least one is there. Each parameter keeps its default every other time.
    fn random(&self, rng: &mut Rng) -> Candidate {
        let mut weights = [0.0; 5];
        while weights.iter().all(|w| *w == 0.0) {
            for (at, weight) in weights.iter_mut().enumerate() {
                let there = rng.unit() > 1.0 / 6.0;
                let drawn = (10.0_f64).powf(rng.unit() * 2.0 - 1.0);
                *weight = if there && (at < 4 || self.lora) { (drawn * 100.0).round() / 100.0 } else { 0.0 };
            }
        }
        let mut knobs = [None; 4];
        for &at in &self.knobs {
            let Knob { values, scorer, .. } = KNOBS[at];
            let drawn = values[rng.between(0, values.len() as u64 - 1) as usize];
            knobs[at] = (rng.unit() < 0.5 && weights[scorer] > 0.0).then_some(drawn);
        }
        Candidate { weights, knobs }
    }

    /// A complete `EndpointPickerConfig`.
    #[must_use]
    pub fn document(&self, candidate: &Candidate) -> String {
        let used = || SCORERS.iter().zip(candidate.weights).filter(|(_, weight)| *weight > 0.0);
        let [size, block, length, idle] = candidate.knobs;
        let mut out = String::from("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n");
        if size.is_some() || block.is_some() {
            let tokens = block.map_or(self.block, |block| block as u64);
            let capacity = (self.cache_tokens as f64 * size.unwrap_or(1.0) / tokens as f64).max(1.0) as u64;
            let _ = writeln!(
                out,
                "- type: approx-prefix-cache-producer\n  parameters: {{autoTune: false, blockSizeTokens: {tokens}, lruCapacityPerServer: {capacity}}}"
            );
        }
        for ((name, ..), _) in used() {
            let _ = writeln!(out, "- type: {name}");
            match (*name, length, idle) {
                ("prefix-cache-scorer", Some(weight), _) => {
                    let _ = writeln!(out, "  parameters: {{matchLengthWeight: {weight}}}");
                }
                ("active-request-scorer", _, Some(requests)) => {
                    let _ = writeln!(out, "  parameters: {{idleThreshold: {requests}}}");
                }
                _ => {}
            }
        }
        out += "- type: max-score-picker\nschedulingProfiles:\n- name: default\n  plugins:\n";
        for ((name, ..), weight) in used() {
            let _ = writeln!(out, "  - pluginRef: {name}\n    weight: {}", rounded(weight));
        }
        out + "  - pluginRef: max-score-picker\n"
    }

    /// As a policy under its short name.
    #[must_use]
    pub fn choice(&self, candidate: &Candidate) -> Choice {
        Choice::document(Arc::<str>::from(candidate.short()), self.document(candidate).into_bytes())
    }
}

fn rounded(weight: f64) -> f64 {
    (weight * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_is_a_document_without_faults() {
        let fleet = FleetOptions::default();
        let space = Space::new(true, vec![0, 1, 2, 3], &fleet);
        for candidate in space.candidates(120, &mut Rng::new(1)) {
            let made = space.choice(&candidate).make(&fleet, 1);
            assert!(made.is_ok(), "{}: {:?}", space.document(&candidate), made.err());
        }
    }

    #[test]
    fn parameters_stand_in_the_document_and_can_be_taken_back() {
        let space = Space::new(false, vec![0, 1, 2, 3], &FleetOptions::default());
        let knobs = [Some(0.5), Some(128.0), Some(0.25), Some(2.0)];
        let candidate = Candidate { knobs, ..Candidate::of_default() };
        let document = space.document(&candidate);
        for part in ["blockSizeTokens: 128, lruCapacityPerServer: 1705", "matchLengthWeight: 0.25", "idleThreshold: 2"]
        {
            assert!(document.contains(part), "{part}: {document}");
        }
        let plain = (0..4).fold(candidate, |c, at| c.without(at).expect("set"));
        assert_eq!((plain, plain.without(0)), (Candidate::of_default(), None));
        assert_eq!(plain.short(), "prefix 3, kv-cache 2, queue 2, active 2");
        let alone = Candidate { weights: [1.0, 0.0, 0.0, 0.0, 0.0], knobs: [None; 4] };
        assert_eq!((alone.scaled(0, 0.0), alone.scaled(0, 2.0).map(|c| c.weights[0])), (None, Some(2.0)));
    }
}
