//! The result of a race as data, and as documents.

mod csv;
mod html;
mod markdown;
mod plot;
mod scatter;

use std::collections::BTreeMap;

use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::fleet::{FleetOptions, Outage};
use crate::metrics::{Course, Estimate, Lines, METRICS, Summary, estimate, paired};
use crate::policy::Choice;
use crate::race::{Axis, Done, Race};
use crate::workload::sharing;

/// What was raced.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct SetUp {
    /// Name of the workload.
    pub workload: String,
    /// Requests of a run.
    pub requests: usize,
    /// Prompt tokens of a run.
    pub prompt_tokens: u64,
    /// Tokens generated in a run.
    pub output_tokens: u64,
    /// Requests per second; `None` where they follow each other.
    pub rate: Option<f64>,
    /// Share of prompt tokens that an endless cache for all would have.
    pub ideal_hit_ratio: f64,
    /// Engines.
    pub pods: usize,
    /// Deployment of each.
    pub profile: String,
    /// KV capacity of each, in tokens.
    pub cache_tokens: u64,
    /// Tokens per KV block.
    pub block_size: u32,
    /// What is not as usual, a sentence each.
    pub notes: Vec<String>,
    /// Milliseconds between two readings of an engine's metrics.
    pub scrape_ms: f64,
    /// Milliseconds from decision to engine.
    pub dispatch_ms: f64,
    /// Milliseconds of tokenising and the like.
    pub api_overhead_ms: f64,
    /// Sigma of the noise on steps.
    pub noise: f64,
    /// Routers.
    pub routers: usize,
    /// Factors on engines' steps, in turn; empty = all alike.
    pub slower: Vec<f64>,
    /// Engines that die: number, seconds of death and return.
    pub outages: Vec<(usize, f64, Option<f64>)>,
    /// First requests that are not counted.
    pub warm: usize,
    /// Runs of each policy that were wanted.
    pub seeds: u64,
    /// Tokens of the longest prompt with its answer.
    pub longest_request: u64,
    /// Requests that may wait in an engine.
    pub max_waiting: u64,
    /// Seconds to first token that count as good.
    pub slo_ttft: f64,
    /// Seconds per token that count as good.
    pub slo_tpot: f64,
}

/// Figures by name, in the order of [`METRICS`].
#[derive(Clone, Debug, PartialEq)]
pub struct Metrics(Vec<Estimate>);

impl Metrics {
    /// The figure of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Estimate {
        let at = METRICS.iter().position(|m| m.name == name);
        at.and_then(|at| self.0.get(at)).copied().unwrap_or(Estimate { mean: f64::NAN, ci: None })
    }
}

impl Serialize for Metrics {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (metric, value) in METRICS.iter().zip(&self.0) {
            map.serialize_entry(metric.name, value)?;
        }
        map.end()
    }
}

/// One policy at one point.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Row {
    /// Name of the policy.
    pub policy: String,
    /// Its number in the race.
    #[serde(skip)]
    pub choice: usize,
    /// Value of the sweep, by the axis's name.
    #[serde(flatten)]
    pub at: BTreeMap<&'static str, f64>,
    /// Runs that are in it.
    pub seeds: usize,
    /// Figures.
    pub metrics: Metrics,
    /// No router can do this: a bound to compare with.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub bound: bool,
    /// Seconds that its mean time to first token is longer than the oracle's, seed by seed; `None` where the oracle takes no part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind_oracle: Option<Estimate>,
    /// How its runs went over time, all taken together.
    pub course: Lines,
    /// Each run, by its seed.
    #[serde(skip)]
    runs: BTreeMap<u64, Summary>,
}

impl Row {
    /// Each run with its seed.
    pub fn runs(&self) -> impl Iterator<Item = (u64, &Summary)> {
        self.runs.iter().map(|(seed, run)| (*seed, run))
    }

    /// The run of a seed.
    #[must_use]
    pub fn run(&self, seed: u64) -> Option<&Summary> {
        self.runs.get(&seed)
    }
}

/// A race's result.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Report {
    /// What was raced.
    pub set_up: SetUp,
    /// Runs that are missing, because the race was broken off.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing_runs: usize,
    /// Who took part: point by point, in the order of the race.
    pub policies: Vec<Row>,
    #[serde(skip)]
    axis: Option<Axis>,
}

fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl Report {
    /// Sums runs up. Those that were broken off do not count; a policy without any has no row.
    #[must_use]
    pub fn of(race: &Race, done: &[Done]) -> Self {
        Self::with(SetUp::of(race), race, &done.iter().collect::<Vec<_>>())
    }

    /// The same, where the set-up is known: it takes a look at every request.
    #[must_use]
    pub fn with(set_up: SetUp, race: &Race, done: &[&Done]) -> Self {
        let axis = race.sweep.as_ref().map(|(axis, _)| *axis);
        let mut policies = Vec::new();
        for point in race.points() {
            for (choice, named) in race.choices.iter().enumerate() {
                let whole = done.iter().filter(|d| !d.cut && d.job.point == point && d.job.choice == choice);
                let mut course = Course::default();
                whole.clone().for_each(|d| course.add(&d.course));
                let runs: BTreeMap<u64, Summary> = whole.map(|d| (d.job.seed, d.summary.clone())).collect();
                if runs.is_empty() {
                    continue;
                }
                let column = |at: usize| runs.values().map(|run| run.values()[at]).collect::<Vec<f64>>();
                let metrics = (0..METRICS.len()).map(|at| estimate(&column(at))).collect();
                let value = race.sweep.as_ref().map(|(axis, values)| (axis.name(), values[point]));
                policies.push(Row {
                    policy: named.name().to_owned(),
                    choice,
                    at: value.into_iter().collect(),
                    seeds: runs.len(),
                    metrics: Metrics(metrics),
                    bound: named.is_bound(),
                    behind_oracle: None,
                    course: course.lines(),
                    runs,
                });
            }
        }
        for rows in policies.chunk_by_mut(|a: &Row, b: &Row| a.at == b.at) {
            let is_oracle = |row: &Row| race.choices.get(row.choice) == Some(&Choice::Baseline("oracle"));
            let Some(oracle) = rows.iter().find(|row| is_oracle(row)).cloned() else { continue };
            for row in rows.iter_mut().filter(|row| !is_oracle(row)) {
                row.behind_oracle = Some(Self::difference(row, &oracle, "ttft_mean"));
            }
        }
        let whole = done.iter().filter(|d| !d.cut).count();
        Self { set_up, missing_runs: race.jobs().len() - whole, policies, axis }
    }

    /// By how much `row` differs from `base` in a figure, over the seeds that both have.
    #[must_use]
    pub fn difference(row: &Row, base: &Row, metric: &str) -> Estimate {
        let common = row.runs().filter_map(|(seed, run)| Some((run.get(metric), base.run(seed)?.get(metric))));
        let (a, b): (Vec<f64>, Vec<f64>) = common.unzip();
        paired(&a, &b)
    }

    /// The rows point by point, each with its heading where something was swept.
    pub fn points(&self) -> impl Iterator<Item = (Option<String>, &[Row])> {
        self.policies.chunk_by(|a, b| a.at == b.at).map(|rows| {
            let heading = rows[0].at.iter().next().map(|(axis, value)| format!("{axis} {value}"));
            (heading, rows)
        })
    }

    /// As JSON: `{set_up, policies[{policy, metrics{name: {mean, ci}}}]}`.
    #[must_use]
    pub fn json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// As CSV: one line per policy, point and figure.
    #[must_use]
    pub fn csv(&self) -> String {
        csv::document(self)
    }

    /// As tables of a document.
    #[must_use]
    pub fn markdown(&self) -> String {
        markdown::document(self)
    }

    /// As one page that needs nothing else, under a title.
    #[must_use]
    pub fn html(&self, title: &str) -> String {
        html::document(self, title)
    }

    /// What was swept.
    #[must_use]
    pub fn axis(&self) -> Option<Axis> {
        self.axis
    }
}

/// What a fleet has that others have not.
fn notes(fleet: &FleetOptions, warm: usize) -> Vec<String> {
    let outage = |o: &Outage| {
        let end = o.to.map_or_else(String::new, |to| format!(" and is back, empty, after {} s", to.as_secs_f64()));
        format!("engine {} dies after {} s{end}", o.pod, o.from.as_secs_f64())
    };
    let factors: Vec<String> = fleet.slower.iter().map(ToString::to_string).collect();
    let rest = [
        (fleet.routers > 1).then(|| format!("{} routers, each with counts and an index of its own", fleet.routers)),
        (!factors.is_empty())
            .then(|| format!("steps of the engines take {} times as long, in turn", factors.join(", "))),
        (warm > 0).then(|| format!("the first {warm} requests warm up and are not counted")),
    ];
    fleet
        .disaggregation
        .describe()
        .into_iter()
        .chain(rest.into_iter().flatten())
        .chain(fleet.outages.iter().map(outage))
        .collect()
}

impl SetUp {
    /// Of a race's first point.
    #[must_use]
    pub fn of(race: &Race) -> Self {
        let (fleet, rate) = race.at(0);
        let workload = race.source.workload(1, rate);
        Self {
            workload: race.source.name().to_owned(),
            requests: workload.requests.len(),
            prompt_tokens: workload.prompt_tokens(),
            output_tokens: workload.output_tokens(),
            rate: workload.rate(),
            ideal_hit_ratio: sharing(&workload, fleet.block_size, false).token_ratio(),
            pods: fleet.pods,
            profile: fleet.profile.name.to_owned(),
            cache_tokens: u64::from(fleet.blocks()) * u64::from(fleet.block_size),
            block_size: fleet.block_size,
            notes: notes(&fleet, workload.warm),
            scrape_ms: fleet.scrape.as_secs_f64() * 1e3,
            dispatch_ms: fleet.dispatch.as_secs_f64() * 1e3,
            api_overhead_ms: fleet.api_overhead.as_secs_f64() * 1e3,
            noise: fleet.noise,
            routers: fleet.routers,
            slower: fleet.slower.clone(),
            outages: fleet
                .outages
                .iter()
                .map(|o| (o.pod, o.from.as_secs_f64(), o.to.map(|to| to.as_secs_f64())))
                .collect(),
            warm: workload.warm,
            seeds: race.seeds,
            longest_request: workload.requests.iter().map(|r| r.prompt.tokens + r.output).max().unwrap_or(0),
            max_waiting: fleet.max_waiting as u64,
            slo_ttft: race.slo.ttft,
            slo_tpot: race.slo.tpot,
        }
    }
}
