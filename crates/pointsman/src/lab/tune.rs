//! `pointsman tune`: finds weights for a workload, and says honestly whether they matter.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use pointsman_lab::metrics::Estimate;
use pointsman_lab::policy::Choice;
use pointsman_lab::race::{Done, Job, Race, Source};
use pointsman_lab::report::{Report, Row};
use pointsman_lab::tune::{Objective, SCORERS, Search, Verdict, Weights, verdict};
use pointsman_plugins::presets::PRESETS;
use serde_json::json;

use super::setup::{Engines, Traffic};
use super::{files, workers};
use crate::failure::{Exit, Failure};
use crate::terminal::millis;

const EXAMPLES: &str = "\
Examples:
  pointsman tune --trace requests.jsonl --pods 8 --train-fraction 0.5 --out tuned.yaml
  pointsman tune --workload shared-prefix:groups=50,requests=500,rate=30 --objective hit-rate";

/// What to tune for.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
#[command(
    after_help = "The winner is compared with the default and the presets on seeds that the search has not seen (with --train-fraction on requests \
    that it has not seen).\nEnds with 0 when the winner beats the default, with 1 when the difference is noise or an interrupt ended the search."
)]
pub(crate) struct Tune {
    #[command(flatten)]
    traffic: Traffic,
    #[command(flatten)]
    engines: Engines,
    /// What is to be best
    #[arg(long, value_enum, default_value_t = Aim::TtftP95)]
    objective: Aim,
    /// Sets of weights to begin with
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=4096))]
    candidates: u32,
    /// Runs of each policy in the last comparison
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=1000))]
    seeds: u64,
    /// Fit on this share of the requests, and report on the others
    #[arg(long, value_name = "SHARE", value_parser = share)]
    train_fraction: Option<f64>,
    /// Write the winner's configuration to this file
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Runs at once; by default one per core
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Aim {
    TtftP95,
    Goodput,
    HitRate,
}

impl From<Aim> for Objective {
    fn from(aim: Aim) -> Self {
        match aim {
            Aim::TtftP95 => Self::TtftP95,
            Aim::Goodput => Self::Goodput,
            Aim::HitRate => Self::HitRate,
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|n| (0.05..=0.95).contains(n));
    share.ok_or_else(|| "a number from 0.05 to 0.95".into())
}

/// What `tune` plays without being told.
const WITHOUT: &str = "shared-prefix:groups=40,prompts=20,requests=300,rate=30";

/// Searches, compares, prints.
pub(crate) fn run(options: &Tune) -> Result<Exit, Failure> {
    if let Some(list) = options.traffic.list() {
        std::io::stdout().lock().write_all(list.as_bytes())?;
        return Ok(Exit::Fine);
    }
    let objective = Objective::from(options.objective);
    let whole = options.traffic.source(WITHOUT)?;
    let (train, test) = match (options.train_fraction, &whole) {
        (None, _) => (whole.clone(), whole.clone()),
        (Some(fraction), Source::Fixed(workload)) => {
            let (train, test) = (**workload).clone().split(fraction);
            if train.requests.is_empty() || test.requests.is_empty() {
                return Err(Failure::usage("the trace is too short to be divided").next("leave --train-fraction out"));
            }
            (Source::Fixed(Arc::new(train)), Source::Fixed(Arc::new(test)))
        }
        (Some(_), Source::Made(_)) => {
            return Err(Failure::usage("--train-fraction is for traces")
                .next("generated workloads are compared on seeds of their own anyway"));
        }
    };
    let lora = train.workload(1, None).requests.iter().any(|r| r.lora.is_some());
    let fleet = options.engines.fleet()?;
    let race = |source: &Source, choices: Vec<Choice>, seeds, after| Race {
        source: source.clone(),
        fleet: fleet.clone(),
        choices,
        seeds,
        after,
        slo: options.engines.slo(),
        rate: options.traffic.rate,
        sweep: None,
    };
    workers::listen_for_interrupts();
    let threads = workers::cores(options.threads);
    let mut search = Search::new(objective, options.candidates as usize, lora, 1);
    let mut number = 0;
    while let Some(round) = search.round().filter(|_| !workers::stopped()) {
        number += 1;
        let choices: Vec<Choice> = round.candidates.iter().map(Weights::choice).collect();
        let all = choices.len();
        let plan = race(&train, choices, round.seeds, round.after);
        search.tell(&play(&plan, threads, &format!("round {number}: {all} candidates"))?);
    }
    let best = search.best();
    let mut choices = vec![best.choice(), Choice::default_picker()];
    choices.extend(PRESETS.iter().filter_map(|p| Choice::named(p.name)));
    let first_of_changes = choices.len();
    // What each weight is good for: without it, and with twice as much.
    let changed: Vec<(usize, f64)> =
        (0..SCORERS.len()).filter(|at| best.0[*at] > 0.0).flat_map(|at| [(at, 0.0), (at, 2.0)]).collect();
    let changed: Vec<(usize, f64)> =
        changed.into_iter().filter(|(at, factor)| best.scaled(*at, *factor).0.iter().any(|w| *w > 0.0)).collect();
    choices.extend(changed.iter().map(|(at, factor)| best.scaled(*at, *factor).choice()));
    let plan = race(&test, choices, options.seeds, search.used_seeds());
    let report = Report::of(&plan, &play(&plan, threads, "comparing")?);
    let found = Found { objective, best, tried: search.tried(), report: &report, first_of_changes, changed: &changed };
    let mut out = std::io::stdout().lock();
    let cut = report.missing_runs > 0 || workers::stopped();
    let text = if options.json { format!("{:#}\n", found.json()) } else { found.text() };
    out.write_all(text.as_bytes())?;
    out.flush()?;
    if let Some(path) = &options.out {
        files::write(path, &found.document())?;
        let _ = writeln!(std::io::stderr(), "written to {}", path.display());
    }
    if cut {
        let _ = writeln!(std::io::stderr(), "interrupted: this is the best so far, and not all of it was compared");
    }
    Ok(if !cut && found.against("default") == Some(Verdict::Better) { Exit::Fine } else { Exit::No })
}

fn play(plan: &Race, threads: usize, label: &str) -> Result<Vec<Done>, Failure> {
    workers::spread(&plan.jobs(), threads, &|_: &Job| label.to_owned(), &|job, tick| {
        plan.run(*job, tick).map_err(|e| Failure::new("a candidate cannot be used").why(e))
    })
}

struct Found<'a> {
    objective: Objective,
    best: Weights,
    tried: usize,
    report: &'a Report,
    first_of_changes: usize,
    changed: &'a [(usize, f64)],
}

impl Found<'_> {
    fn winner(&self) -> Option<&Row> {
        self.report.policies.first().filter(|row| row.policy == self.best.short())
    }

    fn difference(&self, row: &Row) -> Option<Estimate> {
        Some(Report::difference(self.winner()?, row, self.objective.metric()))
    }

    fn against(&self, policy: &str) -> Option<Verdict> {
        let row = self.report.policies.iter().find(|row| row.policy == policy)?;
        Some(verdict(self.objective, self.difference(row)?))
    }

    fn shown(&self, value: f64) -> String {
        match self.objective {
            Objective::TtftP95 => millis(value * 1e3),
            Objective::Goodput => format!("{value:.2}/s"),
            Objective::HitRate => format!("{:.1} %", value * 1e2),
        }
    }

    /// `-10 % ±3 %: better`.
    fn sentence(&self, row: &Row) -> String {
        let (Some(d), base) = (self.difference(row), row.metrics.get(self.objective.metric()).mean) else {
            return String::new();
        };
        let percent = |x: f64| if base.abs() > 0.0 { x / base * 1e2 } else { 0.0 };
        let word = match verdict(self.objective, d) {
            Verdict::Better => "the winner is better",
            Verdict::Worse => "the winner is worse",
            Verdict::Noise => "noise",
        };
        let ci = d.ci.map(|ci| format!(" ±{:.1} %", percent(ci).abs())).unwrap_or_default();
        format!("{:+.1} %{ci}: {word}", percent(d.mean))
    }

    fn text(&self) -> String {
        let metric = self.objective.metric();
        let mut out = format!("Best of {} tried: {}\n", self.tried, self.best.short());
        let Some(winner) = self.winner() else { return out + "It was not compared.\n" };
        let _ =
            writeln!(out, "{metric} {} on what the search had not seen\n", self.shown(winner.metrics.get(metric).mean));
        let _ = writeln!(out, "  {:18} {:>10}   winner against it", "policy", metric);
        for row in self.report.policies.iter().take(self.first_of_changes).skip(1) {
            let _ = writeln!(
                out,
                "  {:18} {:>10}   {}",
                row.policy,
                self.shown(row.metrics.get(metric).mean),
                self.sentence(row)
            );
        }
        out.push_str("\n  what each weight is good for\n");
        for ((at, factor), row) in self.changed.iter().zip(self.report.policies.iter().skip(self.first_of_changes)) {
            let what = if *factor == 0.0 { "without it" } else { "doubled" };
            let _ = writeln!(
                out,
                "  {:28} {what:10} {:>10}   {}",
                SCORERS[*at].0,
                self.shown(row.metrics.get(metric).mean),
                self.sentence(row)
            );
        }
        if self.against("default") == Some(Verdict::Noise) {
            out.push_str("\nThe difference to the default is noise: keep the default, or give more seeds.\n");
        }
        out
    }

    fn document(&self) -> String {
        let metric = self.objective.metric();
        let set_up = &self.report.set_up;
        let told = self.report.policies.iter().find(|row| row.policy == "default").map(|row| self.sentence(row));
        format!(
            "# Made by `pointsman tune` for {metric} on {} ({} x {}).\n# Against the default: {}.\n{}",
            set_up.workload.replace(['\n', '\r'], " "),
            set_up.pods,
            set_up.profile,
            told.unwrap_or_else(|| "not compared".into()),
            self.best.document()
        )
    }

    fn json(&self) -> serde_json::Value {
        let metric = self.objective.metric();
        let row = |row: &Row| {
            let difference = self.difference(row);
            let verdict = difference.map(|d| match verdict(self.objective, d) {
                Verdict::Better => "better",
                Verdict::Worse => "worse",
                Verdict::Noise => "noise",
            });
            json!({"policy": row.policy, metric: row.metrics.get(metric), "difference": difference, "verdict": verdict})
        };
        json!({
            "set_up": self.report.set_up,
            "objective": metric,
            "tried": self.tried,
            "weights": SCORERS.iter().zip(self.best.0).map(|((name, _), w)| (*name, w)).collect::<std::collections::BTreeMap<_, _>>(),
            "document": self.document(),
            "winner": self.winner().map(|w| w.metrics.get(metric)),
            "against": self.report.policies.iter().take(self.first_of_changes).skip(1).map(row).collect::<Vec<_>>(),
            "sensitivity": self.changed.iter().zip(self.report.policies.iter().skip(self.first_of_changes)).map(|((at, factor), r)| {
                json!({"scorer": SCORERS[*at].0, "factor": factor, "result": row(r)})
            }).collect::<Vec<_>>(),
        })
    }
}
