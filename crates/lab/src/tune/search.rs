//! The rounds of a search.

use pointsman_sim::Rng;

use super::{Candidate, Constraint, Objective, Space};
use crate::metrics::{Summary, unserved};
use crate::race::Done;

/// A search.
#[derive(Clone, Debug)]
pub struct Search {
    objective: Objective,
    constraints: Vec<Constraint>,
    left: Vec<Candidate>,
    /// What the default came to in the first round.
    base: Option<Summary>,
    frontier: Vec<Candidate>,
    /// Seeds of the next round.
    seeds: u64,
    after: u64,
    tried: usize,
}

/// What a round asks for.
#[derive(Clone, Debug)]
pub struct Round {
    /// Who meets.
    pub candidates: Vec<Candidate>,
    /// How many seeds.
    pub seeds: u64,
    /// Seeds before the first.
    pub after: u64,
}

/// Candidates beside the winner that are not worse than another in both hits and times, at most.
const FRONTIER: usize = 8;

impl Search {
    /// `count` candidates: the default, the presets, and random ones that follow from `seed`.
    #[must_use]
    pub fn new(objective: Objective, constraints: Vec<Constraint>, count: usize, space: &Space, seed: u64) -> Self {
        let left = space.candidates(count, &mut Rng::new(crate::mix(seed ^ 0x7475_6e65)));
        let tried = left.len();
        Self { objective, constraints, tried, left, base: None, frontier: Vec::new(), seeds: 1, after: 0 }
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

    /// Takes what a round came to: the better half stays, best first; one that breaks a constraint is behind all that keep them. A candidate without runs leaves.
    pub fn tell(&mut self, done: &[Done]) {
        let figures = |which: usize| {
            let runs = done.iter().filter(|d| !d.cut && d.job.choice == which);
            Summary::mean(runs.map(|d| &d.summary))
        };
        let all: Vec<(Candidate, Summary)> =
            self.left.iter().enumerate().filter_map(|(at, candidate)| Some((*candidate, figures(at)?))).collect();
        // The default is the first of the first round.
        if self.base.is_none() {
            self.base = figures(0);
        }
        let Some(base) = &self.base else { return };
        let rate = |figures: &Summary| {
            let get = |name: &str| figures.get(name);
            let unserved = unserved(get("success_rate"), base.get("success_rate"));
            let broken = unserved + self.constraints.iter().map(|c| c.broken(&get)).sum::<f64>();
            (broken, -self.objective.gain(&get, &|name| base.get(name)))
        };
        let mut rated: Vec<((f64, f64), Candidate)> = all.iter().map(|(c, figures)| (rate(figures), *c)).collect();
        rated.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
        if self.frontier.is_empty() {
            let points: Vec<(f64, f64)> = all.iter().map(|(_, f)| (f.get("ttft_p95"), f.get("hit_ratio"))).collect();
            self.frontier = frontier(&points).into_iter().map(|at| all[at].0).take(FRONTIER).collect();
        }
        let keep = self.left.len().div_ceil(2);
        if !rated.is_empty() {
            self.left = rated.into_iter().take(keep).map(|(_, candidate)| candidate).collect();
        }
        self.after += self.seeds;
        self.seeds = (self.seeds * 2).min(8);
    }

    /// The best so far.
    #[must_use]
    pub fn best(&self) -> Candidate {
        self.left.first().copied().unwrap_or_else(Candidate::of_default)
    }

    /// Of all candidates, those that in the first round had none with both more hits and earlier first tokens.
    #[must_use]
    pub fn frontier(&self) -> &[Candidate] {
        &self.frontier
    }

    /// Seeds that rounds have used.
    #[must_use]
    pub fn used_seeds(&self) -> u64 {
        self.after
    }
}

/// Numbers of the points that no other is better than: less of the first figure, more of the second. In the order of the first.
pub(crate) fn frontier(points: &[(f64, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).filter(|at| points[*at].0.is_finite()).collect();
    order.sort_by(|a, b| points[*a].0.total_cmp(&points[*b].0).then(points[*b].1.total_cmp(&points[*a].1)));
    let mut most = f64::NEG_INFINITY;
    order.retain(|at| {
        let more = points[*at].1 > most;
        most = most.max(points[*at].1);
        more
    });
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::FleetOptions;
    use crate::metrics::Slo;
    use crate::race::{Race, Source};
    use crate::workload::Spec;

    fn search(objective: &str, constraints: &[&str]) -> Search {
        let space = Space::new(false, Vec::new(), &FleetOptions::default());
        let constraints = constraints.iter().map(|c| Constraint::parse(c).expect(c)).collect();
        let mut search = Search::new(Objective::parse(objective).expect("fine"), constraints, 16, &space, 1);
        let spec = Spec::parse("shared-prefix:groups=16,requests=120,rate=20").expect("fine");
        while let Some(round) = search.round() {
            let race = Race {
                source: Source::Made(Box::new(spec.clone())),
                fleet: FleetOptions::default(),
                choices: round.candidates.iter().map(|c| space.choice(c)).collect(),
                seeds: round.seeds,
                after: round.after,
                slo: Slo::default(),
                rate: None,
                sweep: None,
            };
            search.tell(&race.run_all().expect("no faults"));
        }
        search
    }

    #[test]
    fn a_search_for_hits_ends_with_weights_that_follow_the_prefix() {
        let best = search("hit-rate", &[]).best();
        let [prefix, others @ ..] = best.weights;
        assert!(prefix > others.iter().sum::<f64>() * 0.2, "{best:?}");
    }

    #[test]
    fn who_breaks_a_constraint_loses_to_all_that_keep_it() {
        // Nobody without the prefix reaches so many hits, so the bound beats the objective.
        let free = search("imbalance-tokens", &[]).best();
        let bound = search("imbalance-tokens", &["hit-rate>0.7"]).best();
        assert!(bound.weights[0] > 0.0 && bound != free, "{bound:?} {free:?}");
    }

    #[test]
    fn the_frontier_has_nobody_that_another_beats_in_both() {
        let points = [(3.0, 0.9), (1.0, 0.2), (2.0, 0.1), (2.0, 0.5), (1.0, 0.3), (f64::NAN, 1.0), (4.0, 0.9)];
        assert_eq!(frontier(&points), [4, 3, 0]);
        assert!(!search("ttft-p95", &[]).frontier().is_empty());
    }
}
