//! What other weights would have chosen, from a record alone.
//!
//! A record has the raw scores of every candidate that was rated, so that a weighted sum with other weights needs nothing else. It says what would have been
//! chosen *then*: a fleet that had been steered by these weights all along would have looked different.

use super::{ProfileRecord, ScorerColumn};

/// How far two sums may lie apart, relative to the larger one, and still be a tie: less than the rounding of a score.
const SAME: f64 = 1e-9;

/// A profile's candidates under other weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Rescored {
    /// Fleet places of those with the highest sum.
    pub best: Vec<u32>,
    /// The highest sum, and that of the one that was picked.
    pub sums: (f64, f64),
    /// Fleet place of the one that was picked.
    pub picked: u32,
}

/// How two choices compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// The same endpoint.
    Same,
    /// The one that was picked is as good as others.
    Tied,
    /// Another one is better.
    Different,
}

impl Rescored {
    /// How it compares with what was picked.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        match (self.best.contains(&self.picked), self.best.len()) {
            (true, 1) => Agreement::Same,
            (true, _) => Agreement::Tied,
            (false, _) => Agreement::Different,
        }
    }
}

impl ProfileRecord {
    /// The candidates under these weights; `None` where nobody was picked, or the one that was is not among those kept.
    #[must_use]
    pub fn rescored(&self, weight: impl Fn(&ScorerColumn) -> f64) -> Option<Rescored> {
        let weights: Vec<f64> = self.columns.scorers.iter().map(weight).collect();
        let picked = *self.picked.first()?;
        let sums: Vec<(u32, f64)> = self
            .candidates
            .iter()
            .filter_map(|c| {
                let from = c.row? as usize * weights.len();
                let raw = self.scores.get(from..from + weights.len())?;
                Some((c.index, raw.iter().zip(&weights).map(|(raw, w)| raw.clamp(0.0, 1.0) * w).sum()))
            })
            .collect();
        let own = sums.iter().find(|(index, _)| *index == picked)?.1;
        let highest = sums.iter().map(|(_, sum)| *sum).fold(f64::NEG_INFINITY, f64::max);
        let near = SAME * highest.abs().max(1.0);
        let best = sums.iter().filter(|(_, sum)| highest - sum <= near).map(|(index, _)| *index).collect();
        Some(Rescored { best, sums: (highest, own), picked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{CandidateRecord, LoraState, ProfileColumns, Signals};
    use std::sync::Arc;

    fn profile(rows: &[[f64; 2]], picked: u32) -> ProfileRecord {
        let signals = Signals {
            waiting: None,
            running: None,
            kv_cache_usage: None,
            in_flight: 0,
            lora: LoraState::Unknown,
            age_ms: None,
        };
        let candidate = |at: usize| CandidateRecord {
            index: at as u32 + 10,
            dropped: None,
            signals,
            total: None,
            prefix_match_tokens: 0,
            row: Some(at as u32),
        };
        let scorers =
            [("prefix", 3.0), ("queue", 2.0)].map(|(name, weight)| ScorerColumn { name: name.into(), weight });
        ProfileRecord {
            columns: Arc::new(ProfileColumns { scorers: scorers.into(), ..ProfileColumns::default() }),
            candidates: (0..rows.len()).map(candidate).collect(),
            drops: Box::default(),
            scores: rows.iter().flatten().copied().collect(),
            ties: Box::default(),
            picked: Box::new([picked]),
            omitted: 0,
            omitted_dropped: 0,
        }
    }

    #[test]
    fn other_weights_choose_by_the_raw_scores_on_record() {
        let record = profile(&[[0.9, 0.1], [0.2, 1.0]], 10);
        let with = |prefix: f64, queue: f64| {
            record.rescored(|s| if &*s.name == "prefix" { prefix } else { queue }).expect("somebody was picked")
        };
        assert_eq!((with(3.0, 2.0).agreement(), with(3.0, 2.0).best), (Agreement::Same, vec![10]));
        assert_eq!((with(1.0, 2.0).agreement(), with(1.0, 2.0).best), (Agreement::Different, vec![11]));
        assert_eq!(with(0.0, 0.0).agreement(), Agreement::Tied);
        assert_eq!(with(1.0, 2.0).sums, (2.2, 1.1));
    }

    #[test]
    fn only_the_ratios_of_weights_matter_and_scores_count_from_0_to_1() {
        let record = profile(&[[0.3, 0.7], [0.7, 0.3], [2.0, -1.0]], 10);
        for factor in [0.1, 1.0, 7.0, 1e6] {
            let rescored = record.rescored(|_| factor).expect("somebody was picked");
            assert_eq!((rescored.agreement(), rescored.best.len()), (Agreement::Tied, 3), "{factor}");
        }
    }

    #[test]
    fn a_record_without_its_pick_cannot_be_rescored() {
        assert_eq!(profile(&[[0.3, 0.7]], 99).rescored(|_| 1.0), None);
    }
}
