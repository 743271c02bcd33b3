//! The winner of a search against the default, the presets and its own variations, on what the search has not seen.

use serde_json::{Value, json};

use super::search::frontier;
use super::{Candidate, Constraint, KNOBS, Objective, SCORERS, Space};
use crate::metrics::{Estimate, Metric, paired, unserved};
use crate::policy::Choice;
use crate::report::{Report, Row};

/// Why a policy takes part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Role {
    /// What the search found.
    Winner,
    /// What `serve` does.
    Default,
    /// A preset.
    Preset,
    /// Nobody was better in hits and in times both.
    Frontier(Candidate),
    /// The winner with one weight multiplied: number of the scorer, and factor.
    Weight(usize, f64),
    /// The winner with the default of one parameter: number of the knob.
    Knob(usize),
}

/// What a gain is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Better by more than chance, or keeps what the other breaks.
    Better,
    /// Worse by more than chance, or breaks what the other keeps.
    Worse,
    /// No difference that the seeds could show.
    Noise,
}

/// What was found, and what it is worth.
#[derive(Debug)]
pub struct Comparison<'a> {
    /// What was sought.
    pub objective: &'a Objective,
    /// What had to be kept.
    pub constraints: &'a [Constraint],
    /// What could change.
    pub space: &'a Space,
    /// The winner.
    pub best: Candidate,
    /// Candidates that were tried.
    pub tried: usize,
    /// Who takes part as what, in the order of the report's race.
    pub roles: &'a [Role],
    /// What came of it.
    pub report: &'a Report,
}

impl Comparison<'_> {
    /// Who is to meet the winner.
    #[must_use]
    pub fn plan(space: &Space, best: Candidate, frontier: &[Candidate]) -> (Vec<Role>, Vec<Choice>) {
        let named =
            |name: String, candidate: Candidate| Choice::document(name, space.document(&candidate).into_bytes());
        let mut all = vec![(Role::Winner, named("winner".into(), best)), (Role::Default, Choice::default_picker())];
        let presets = pointsman_plugins::presets::PRESETS.iter().filter_map(|p| Choice::named(p.name));
        all.extend(presets.map(|choice| (Role::Preset, choice)));
        let others = frontier.iter().filter(|c| **c != best && **c != Candidate::of_default());
        all.extend(others.map(|c| (Role::Frontier(*c), space.choice(c))));
        let weights = (0..SCORERS.len()).filter(|at| best.weights[*at] > 0.0).flat_map(|at| [(at, 0.0), (at, 2.0)]);
        all.extend(weights.filter_map(|(at, factor)| {
            let name = format!("{} {}", if factor == 0.0 { "without" } else { "twice" }, SCORERS[at].1);
            Some((Role::Weight(at, factor), named(name, best.scaled(at, factor)?)))
        }));
        all.extend(
            (0..KNOBS.len()).filter_map(|at| {
                Some((Role::Knob(at), named(format!("default {}", KNOBS[at].name), best.without(at)?)))
            }),
        );
        all.into_iter().unzip()
    }

    /// Rows with their roles; whoever has no runs is missing.
    pub fn rows(&self) -> impl Iterator<Item = (Role, &Row)> {
        self.report.policies.iter().filter_map(|row| Some((*self.roles.get(row.choice)?, row)))
    }

    fn only(&self, wanted: Role) -> Option<&Row> {
        self.rows().find(|(role, _)| *role == wanted).map(|(_, row)| row)
    }

    /// The winner's row.
    #[must_use]
    pub fn winner(&self) -> Option<&Row> {
        self.only(Role::Winner)
    }

    /// By how much the winner is better than a row, as a share of the default's figures, over the seeds that all three have.
    #[must_use]
    pub fn gain(&self, over: &Row) -> Option<Estimate> {
        let (winner, default) = (self.winner()?, self.only(Role::Default)?);
        let base = |name: &str| default.metrics.get(name).mean;
        let seeds = winner.runs().filter_map(|(seed, mine)| {
            let gain = |run: &crate::metrics::Summary| self.objective.gain(&|name| run.get(name), &base);
            Some((gain(mine), gain(over.run(seed)?)))
        });
        let (mine, its): (Vec<f64>, Vec<f64>) = seeds.unzip();
        (!mine.is_empty()).then(|| paired(&mine, &its))
    }

    /// Constraints that a row breaks, by its means.
    pub fn broken(&self, row: &Row) -> impl Iterator<Item = &Constraint> {
        self.constraints.iter().filter(|c| c.broken(&|name| row.metrics.get(name).mean) > 0.0)
    }

    /// The winner against a row.
    #[must_use]
    pub fn verdict(&self, row: &Row) -> Option<Verdict> {
        let served = |row: &Row| row.metrics.get("success_rate").mean;
        let default = self.only(Role::Default).map_or(0.0, served);
        let breaks = |row: &Row| self.broken(row).next().is_some() || unserved(served(row), default) > 0.0;
        let gain = self.gain(row)?;
        Some(match (breaks(self.winner()?), breaks(row), gain.is_real()) {
            (false, true, _) => Verdict::Better,
            (true, false, _) => Verdict::Worse,
            (_, _, true) if gain.mean > 0.0 => Verdict::Better,
            (_, _, true) => Verdict::Worse,
            _ => Verdict::Noise,
        })
    }

    /// The winner against the default.
    #[must_use]
    pub fn against_default(&self) -> Option<Verdict> {
        self.verdict(self.only(Role::Default)?)
    }

    /// Rows that have nobody with both more hits and an earlier 95th percentile of first tokens, earliest first.
    #[must_use]
    pub fn frontier(&self) -> Vec<(Role, &Row)> {
        let rows: Vec<(Role, &Row)> = self.rows().filter(|(_, row)| row.metrics.get("completed").mean > 0.0).collect();
        let point = |row: &Row| (row.metrics.get("ttft_p95").mean, row.metrics.get("hit_ratio").mean);
        let points: Vec<(f64, f64)> = rows.iter().map(|(_, row)| point(row)).collect();
        frontier(&points).into_iter().map(|at| rows[at]).collect()
    }

    /// Figures that matter here: time, hits, and what objective and constraints name.
    #[must_use]
    pub fn metrics(&self) -> Vec<&'static Metric> {
        let named = ["ttft_p95", "hit_ratio"].into_iter().filter_map(Metric::named);
        let mut all: Vec<&'static Metric> = Vec::new();
        for metric in named.chain(self.objective.metrics()).chain(self.constraints.iter().map(|c| c.metric)) {
            if !all.contains(&metric) {
                all.push(metric);
            }
        }
        all
    }

    /// The configuration of a role that the search made.
    #[must_use]
    pub fn candidate(&self, role: Role) -> Option<Candidate> {
        match role {
            Role::Winner => Some(self.best),
            Role::Frontier(candidate) => Some(candidate),
            Role::Weight(at, factor) => self.best.scaled(at, factor),
            Role::Knob(at) => self.best.without(at),
            Role::Default => Some(Candidate::of_default()),
            Role::Preset => None,
        }
    }

    /// As JSON, with a whole configuration for each point of the frontier that the search made.
    #[must_use]
    pub fn json(&self, document: &str) -> Value {
        let figures = |row: &Row| {
            let metrics = self.metrics().into_iter().map(|m| (m.name.to_owned(), json!(row.metrics.get(m.name))));
            let broken: Vec<String> = self.broken(row).map(ToString::to_string).collect();
            let mut told =
                json!({"policy": row.policy, "gain": self.gain(row), "verdict": self.verdict(row), "breaks": broken});
            if let Some(object) = told.as_object_mut() {
                object.extend(metrics);
            }
            told
        };
        let with = |row: &Row, key: &str, value: Value| {
            let mut told = figures(row);
            told[key] = value;
            told
        };
        let against = self.rows().filter(|(role, _)| matches!(role, Role::Default | Role::Preset));
        let sensitivity = self.rows().filter_map(|(role, row)| match role {
            Role::Weight(at, factor) => {
                Some(json!({"scorer": SCORERS[at].0, "factor": factor, "result": figures(row)}))
            }
            Role::Knob(at) => Some(json!({"parameter": KNOBS[at].name, "value": null, "result": figures(row)})),
            _ => None,
        });
        let frontier = self.frontier().into_iter().map(|(role, row)| {
            let document = self.candidate(role).map(|candidate| self.space.document(&candidate));
            with(row, "document", json!(document))
        });
        let weights = SCORERS.iter().zip(self.best.weights).map(|((name, ..), w)| ((*name).to_owned(), json!(w)));
        let knobs = KNOBS.iter().zip(self.best.knobs).filter_map(|(k, v)| Some((k.name.to_owned(), json!(v?))));
        json!({
            "set_up": self.report.set_up,
            "missing_runs": self.report.missing_runs,
            "objective": self.objective.to_string(),
            "subject_to": self.constraints.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "tried": self.tried,
            "weights": weights.collect::<serde_json::Map<_, _>>(),
            "parameters": knobs.collect::<serde_json::Map<_, _>>(),
            "document": document,
            "winner": self.winner().map(figures),
            "against": against.map(|(_, row)| figures(row)).collect::<Vec<_>>(),
            "sensitivity": sensitivity.collect::<Vec<_>>(),
            "frontier": frontier.collect::<Vec<_>>(),
        })
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
    fn the_default_is_noise_against_itself_and_who_breaks_a_constraint_loses() {
        let fleet = FleetOptions::default();
        let space = Space::new(false, Vec::new(), &fleet);
        let best = Candidate::of_default();
        let (roles, choices) = Comparison::plan(&space, best, &[]);
        assert_eq!(roles.iter().filter(|role| **role == Role::Preset).count(), 6);
        let spec = Spec::parse("shared-prefix:groups=16,requests=100,rate=30").expect("fine");
        let race = Race {
            source: Source::Made(Box::new(spec)),
            fleet,
            choices,
            seeds: 3,
            after: 0,
            slo: Slo::default(),
            rate: None,
            sweep: None,
        };
        let mut done = race.run_all().expect("no faults");
        // One that was interrupted before it began: nobody is taken for another.
        done.retain(|d| d.job.choice != 3);
        let report = Report::of(&race, &done);
        let objective = Objective::parse("ttft-p95").expect("fine");
        let bound = [Constraint::parse("hit-rate>0.6").expect("fine")];
        let of = |constraints| Comparison {
            objective: &objective,
            constraints,
            space: &space,
            best,
            tried: 1,
            roles: &roles,
            report: &report,
        };
        assert_eq!(of(&[]).against_default(), Some(Verdict::Noise));
        let bound = of(&bound);
        let without = bound.rows().find(|(role, _)| *role == Role::Weight(0, 0.0)).expect("it ran").1;
        assert_eq!(bound.verdict(without), Some(Verdict::Better), "{}", without.metrics.get("hit_ratio").mean);
        let json = bound.json("");
        assert_eq!(
            (json["against"].as_array().map(Vec::len), &json["subject_to"][0]),
            (Some(6), &json!("hit-ratio>0.6"))
        );
        assert!(json["frontier"].as_array().is_some_and(|f| !f.is_empty()));
    }
}
