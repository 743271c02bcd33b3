//! Several policies, one workload, one fleet, some seeds: the jobs of a race, and what they come to.
//!
//! A race runs nothing by itself. Its owner takes the [jobs](Race::jobs), runs each with [`Race::run`] on whatever threads it has, and hands the results
//! to [`Report::of`](crate::report::Report::of), also when some are missing.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::fleet::{self, FleetOptions};
use crate::metrics::{Course, Slo, Summary};
use crate::policy::{Choice, Unusable};
use crate::workload::{Spec, Workload};

/// Where a race's requests come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The same for every seed: a trace.
    Fixed(Arc<Workload>),
    /// Made anew for every seed.
    Made(Box<Spec>),
}

impl Source {
    /// What a person calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Fixed(workload) => &workload.name,
            Self::Made(spec) => spec.name(),
        }
    }

    /// The requests of a seed, at `rate` requests per second where one is wanted.
    #[must_use]
    pub fn workload(&self, seed: u64, rate: Option<f64>) -> Arc<Workload> {
        let workload = match self {
            Self::Fixed(workload) => Arc::clone(workload),
            Self::Made(spec) => Arc::new(spec.generate(seed)),
        };
        match (rate, workload.rate()) {
            (Some(wanted), Some(has)) => Arc::new(Arc::unwrap_or_clone(workload).faster(wanted / has)),
            _ => workload,
        }
    }
}

/// What is swept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Requests per second.
    Rate,
    /// Engines.
    Pods,
    /// Share of each engine's cache.
    Cache,
    /// Milliseconds between two readings of an engine's metrics.
    Scrape,
    /// Routers in front of the engines.
    Routers,
}

impl Axis {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "rate" => Self::Rate,
            "pods" => Self::Pods,
            "cache" => Self::Cache,
            "scrape" => Self::Scrape,
            "routers" => Self::Routers,
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Pods => "pods",
            Self::Cache => "cache",
            Self::Scrape => "scrape",
            Self::Routers => "routers",
        }
    }
}

/// A race.
#[derive(Clone, Debug)]
pub struct Race {
    /// The requests.
    pub source: Source,
    /// The engines.
    pub fleet: FleetOptions,
    /// Who takes part.
    pub choices: Vec<Choice>,
    /// Runs of each.
    pub seeds: u64,
    /// Seeds before the first: 0 begins with seed 1.
    pub after: u64,
    /// What counts as good.
    pub slo: Slo,
    /// Requests per second, where they are not as the source has them.
    pub rate: Option<f64>,
    /// What changes, and its values. `None`: one point.
    pub sweep: Option<(Axis, Vec<f64>)>,
}

/// One run of a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Job {
    /// Number of the sweep's value.
    pub point: usize,
    /// Seed, from 1.
    pub seed: u64,
    /// Number of the policy.
    pub choice: usize,
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Done {
    /// Which.
    pub job: Job,
    /// Its figures.
    pub summary: Summary,
    /// The run over time.
    pub course: Course,
    /// Engine steps that were simulated.
    pub steps: u64,
    /// Whether it was broken off; its figures are then of what had ended.
    pub cut: bool,
}

impl Race {
    /// All runs: seed by seed, so that breaking off leaves all policies with about as many.
    #[must_use]
    pub fn jobs(&self) -> Vec<Job> {
        let mut jobs = Vec::new();
        for seed in self.after + 1..=self.after + self.seeds {
            for point in self.points() {
                jobs.extend((0..self.choices.len()).map(|choice| Job { point, seed, choice }));
            }
        }
        jobs
    }

    /// Numbers of the sweep's values; one where nothing is swept.
    #[must_use]
    pub fn points(&self) -> std::ops::Range<usize> {
        0..self.sweep.as_ref().map_or(1, |(_, values)| values.len())
    }

    /// Fleet and rate at a point of the sweep.
    #[must_use]
    pub fn at(&self, point: usize) -> (FleetOptions, Option<f64>) {
        let (mut fleet, mut rate) = (self.fleet.clone(), self.rate);
        if let Some((axis, value)) = self.sweep.as_ref().and_then(|(axis, values)| Some((axis, *values.get(point)?))) {
            match axis {
                Axis::Rate => rate = Some(value),
                Axis::Pods => fleet.pods = value as usize,
                Axis::Cache => fleet.cache = value,
                Axis::Routers => fleet.routers = value as usize,
                Axis::Scrape => fleet.scrape = std::time::Duration::from_secs_f64(value.clamp(1.0, 1e9) / 1e3),
            }
        }
        (fleet, rate)
    }

    /// Runs one.
    ///
    /// # Errors
    /// When its policy's configuration has faults.
    pub fn run(&self, job: Job, progress: &mut fleet::Progress<'_>) -> Result<Done, Unusable> {
        let (fleet, rate) = self.at(job.point);
        let workload = self.source.workload(job.seed, rate);
        let mut policy = self.choices[job.choice].make(&fleet, crate::mix(job.seed ^ 0x706f_6c69_6379))?;
        let outcome = fleet::run(&fleet, &workload, &mut *policy, job.seed, progress);
        let steps = outcome.engines.iter().map(|e| e.steps).sum();
        let summary = Summary::of(&outcome, fleet.pods, self.slo);
        Ok(Done { job, summary, course: outcome.course, steps, cut: outcome.cut })
    }

    /// Runs all on this thread.
    ///
    /// # Errors
    /// When a configuration has faults.
    pub fn run_all(&self) -> Result<Vec<Done>, Unusable> {
        self.jobs().into_iter().map(|job| self.run(job, &mut |_, _| ControlFlow::Continue(()))).collect()
    }
}
