//! One profile: filters in order, a clamped weighted sum of scores, one pick (plugin specification 2.3).

use crate::record::{ProfileColumns, Reason, ScorerColumn};
use crate::{Cycle, Filter, Named, Picker, Scope, Scorer};
use pointsman_core::{Clock, Nanos, Refusal};
use std::sync::Arc;

/// A scorer and its weight. Weights are not normalised: only their ratios matter to a pick.
#[derive(Clone, Debug)]
pub struct WeightedScorer {
    /// The scorer.
    pub scorer: Named<dyn Scorer>,
    /// Factor of its clamped score; 0 and negative values are allowed.
    pub weight: f64,
}

/// A named profile.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Name in the configuration.
    pub name: Arc<str>,
    /// Filters, in order.
    pub filters: Vec<Named<dyn Filter>>,
    /// Scorers, in order.
    pub scorers: Vec<WeightedScorer>,
    /// The picker.
    pub picker: Named<dyn Picker>,
    /// What its records have in common.
    pub columns: Arc<ProfileColumns>,
}

/// A candidate that a filter dropped.
#[derive(Clone, Debug)]
pub struct Dropped {
    /// Position among the candidates.
    pub candidate: u32,
    /// Number of the filter in the profile.
    pub filter: u16,
    /// Why.
    pub reason: Reason,
}

/// What one run of a profile did. Candidates are positions in the request's candidate list.
#[derive(Clone, Debug, Default)]
pub struct ProfileRun {
    /// Candidates that every filter left in, in order.
    pub kept: Vec<u32>,
    /// Candidates dropped, in the order of dropping.
    pub dropped: Vec<Dropped>,
    /// Raw scores: all of the first scorer (by `kept`), then all of the second.
    pub raw: Vec<f64>,
    /// Weighted sums, by `kept`.
    pub totals: Vec<f64>,
    /// Candidates that shared the highest sum, when more than one did.
    pub ties: Vec<u32>,
    /// The picks, best first; never empty.
    pub picked: Vec<u32>,
    /// When the run began, and when each filter, each scorer and the picker was done, as far as the run came. Empty unless the request is
    /// [timed](crate::Request::timed).
    pub laps: Vec<Nanos>,
}

impl Profile {
    /// A profile of these plugins.
    #[must_use]
    pub fn new(
        name: Arc<str>,
        filters: Vec<Named<dyn Filter>>,
        scorers: Vec<WeightedScorer>,
        picker: Named<dyn Picker>,
    ) -> Self {
        let column = |s: &WeightedScorer| ScorerColumn { name: Arc::clone(&s.scorer.name), weight: s.weight };
        let columns = ProfileColumns {
            name: Arc::clone(&name),
            picker: Arc::clone(&picker.name),
            filters: filters.iter().map(|f| Arc::clone(&f.name)).collect(),
            scorers: scorers.iter().map(column).collect(),
        };
        Self { name, filters, scorers, picker, columns: Arc::new(columns) }
    }

    /// Runs the profile over all candidates of `scope`.
    ///
    /// # Errors
    /// 429 `rejected-saturated` with the drops so far when nobody is left.
    pub fn run(
        &self,
        cycle: &Cycle<'_>,
        scope: Scope<'_>,
        rng: &mut fastrand::Rng,
        clock: &dyn Clock,
    ) -> Result<ProfileRun, Box<(Refusal, ProfileRun)>> {
        let mut run = ProfileRun { kept: scope.kept.to_vec(), ..ProfileRun::default() };
        let mut then = clock.now();
        let timed = cycle.request.timed;
        if timed {
            run.laps.reserve(self.filters.len() + self.scorers.len() + 2);
            run.laps.push(then);
        }
        for (number, filter) in self.filters.iter().enumerate() {
            if run.kept.is_empty() {
                break;
            }
            self.filter(number as u16, filter, cycle, scope, &mut run);
            then = filter.timing.lap(clock, then);
            if timed {
                run.laps.push(then);
            }
        }
        if run.kept.is_empty() {
            return Err(Box::new((Refusal::all_filtered(), run)));
        }
        let n = run.kept.len();
        run.totals.resize(n, 0.0);
        run.raw.resize(n * self.scorers.len(), 0.0);
        let scope = Scope { all: scope.all, kept: &run.kept };
        for (weighted, raw) in self.scorers.iter().zip(run.raw.chunks_exact_mut(n)) {
            weighted.scorer.score(cycle, scope, raw);
            for (total, raw) in run.totals.iter_mut().zip(raw.iter_mut()) {
                if raw.is_nan() {
                    weighted.scorer.count_nan();
                    *raw = 0.0;
                }
                *total += raw.clamp(0.0, 1.0) * weighted.weight;
            }
            then = weighted.scorer.timing.lap(clock, then);
            if timed {
                run.laps.push(then);
            }
        }
        let mut picked = Vec::with_capacity(1);
        self.picker.pick(&run.totals, rng, &mut picked);
        run.picked = picked.iter().filter_map(|&i| run.kept.get(i).copied()).collect();
        if run.picked.is_empty() {
            run.picked.push(run.kept[0]);
        }
        then = self.picker.timing.lap(clock, then);
        if timed {
            run.laps.push(then);
        }
        run.note_ties();
        Ok(run)
    }

    fn filter(
        &self,
        number: u16,
        filter: &Named<dyn Filter>,
        cycle: &Cycle<'_>,
        scope: Scope<'_>,
        run: &mut ProfileRun,
    ) {
        let before = run.dropped.len();
        let kept = &run.kept;
        let dropped = &mut run.dropped;
        filter.filter(cycle, Scope { all: scope.all, kept }, &mut |i, reason| {
            if let Some(&candidate) = kept.get(i) {
                dropped.push(Dropped { candidate, filter: number, reason });
            }
        });
        let gone = &run.dropped[before..];
        if !gone.is_empty() {
            let mut gone: Vec<u32> = gone.iter().map(|d| d.candidate).collect();
            gone.sort_unstable();
            run.kept.retain(|c| gone.binary_search(c).is_err());
        }
    }
}

impl ProfileRun {
    fn note_ties(&mut self) {
        let best = self.totals.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let tied = || self.totals.iter().zip(&self.kept).filter(|(t, _)| **t == best).map(|(_, c)| *c);
        if tied().nth(1).is_some() {
            self.ties = tied().collect();
        }
    }

    /// The weighted sum of a candidate that was not dropped.
    #[must_use]
    pub fn total_of(&self, candidate: u32) -> Option<f64> {
        self.kept.iter().position(|&c| c == candidate).map(|i| self.totals[i])
    }
}
