//! `pointsman tune`: finds a configuration for a workload, and says honestly whether it matters.

mod text;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use pointsman_lab::policy::Choice;
use pointsman_lab::race::{Done, Job, Race, Source};
use pointsman_lab::report::Report;
use pointsman_lab::tune::{Comparison, Constraint, KNOBS, Objective, Search, Space, Verdict};

use super::files::Document;
use super::setup::{Engines, Traffic, fits};
use super::workers;
use crate::failure::{Exit, Failure};

const EXAMPLES: &str = "\
Examples:
  pointsman tune --trace requests.jsonl --pods 8 --train-fraction 0.5 --out tuned.yaml
  pointsman tune --objective ttft-p95=1,hit-rate=0.5 --subject-to 'tpot-p95<0.05' --search-parameters index-size,match-length";

/// What to tune for.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
#[command(
    after_help = "The winner is compared with the default and the presets on seeds that the search has not seen (with --train-fraction on requests \
    that it has not seen). Gains are shares of what the default comes to.\nEnds with 0 when the winner beats the default, with 1 when the difference is \
    noise, when it breaks what it was to keep, or when an interrupt ended the search."
)]
pub(crate) struct Tune {
    #[command(flatten)]
    traffic: Traffic,
    #[command(flatten)]
    engines: Engines,
    /// What is to be best: a figure of `race --json`, or several with weights
    #[arg(long, default_value = "ttft-p95", value_name = "FIGURE[=WEIGHT],..", value_parser = Objective::parse)]
    objective: Objective,
    /// What has to be kept: a candidate that breaks one loses to all that keep it
    #[arg(long, value_delimiter = ',', value_name = "FIGURE<NUMBER,..", value_parser = Constraint::parse)]
    subject_to: Vec<Constraint>,
    /// Parameters to search beside weights: index-size, block-size, match-length, idle-threshold
    #[arg(long, value_delimiter = ',', value_name = "NAME,..", value_parser = knob)]
    search_parameters: Vec<usize>,
    /// Candidates to begin with
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u32).range(8..=4096))]
    candidates: u32,
    /// Runs of each policy in the last comparison
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=1000))]
    seeds: u64,
    /// Fit on this share of the requests, and report on the others
    #[arg(long, value_name = "SHARE", value_parser = share)]
    train_fraction: Option<f64>,
    /// Write the winner's configuration to this file; without, it is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print everything as JSON
    #[arg(long)]
    json: bool,
    /// Also write a page with plots of the last comparison
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Runs at once; by default one per core
    #[arg(long, value_name = "N", value_parser = workers::threads())]
    threads: Option<u16>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|n| (0.05..=0.95).contains(n));
    share.ok_or_else(|| "a number from 0.05 to 0.95".into())
}

fn knob(text: &str) -> Result<usize, String> {
    let at = KNOBS.iter().position(|knob| knob.name == text);
    at.ok_or_else(|| KNOBS.iter().map(|knob| format!("{}: {}", knob.name, knob.doc)).collect::<Vec<_>>().join("; "))
}

/// What `tune` plays without being told.
const WITHOUT: &str = "shared-prefix:groups=40,prompts=20,requests=300,rate=30";

impl Tune {
    /// What the search plays, and what the last comparison plays.
    fn sources(&self) -> Result<(Source, Source), Failure> {
        let whole = self.traffic.source(WITHOUT)?;
        match (self.train_fraction, &whole) {
            (None, _) => Ok((whole.clone(), whole)),
            (Some(fraction), Source::Fixed(workload)) => {
                let (train, test) = (**workload).clone().split(fraction);
                if train.requests.is_empty() || test.requests.is_empty() {
                    return Err(
                        Failure::usage("the trace is too short to be divided").next("leave --train-fraction out")
                    );
                }
                Ok((Source::Fixed(Arc::new(train)), Source::Fixed(Arc::new(test))))
            }
            (Some(_), Source::Made(_)) => Err(Failure::usage("--train-fraction is for traces")
                .next("generated workloads are compared on seeds of their own anyway")),
        }
    }

    fn race(&self, source: &Source, choices: Vec<Choice>, seeds: u64, after: u64) -> Race {
        Race {
            source: source.clone(),
            fleet: self.engines.fleet(),
            choices,
            seeds,
            after,
            slo: self.engines.slo(),
            rate: self.traffic.rate,
            sweep: None,
        }
    }
}

/// Searches, compares, prints.
pub(crate) fn run(options: &Tune) -> Result<Exit, Failure> {
    if let Some(list) = options.traffic.list().or_else(|| options.engines.list()) {
        std::io::stdout().lock().write_all(list.as_bytes())?;
        return Ok(Exit::Fine);
    }
    let fleet = options.engines.fleet();
    fits(&fleet)?;
    if fleet.disaggregation.prefill_pods > 0 {
        return Err(Failure::usage("--prefill-pods changes nothing here: no candidate reads roles")
            .next("compare configurations with `disagg-profile-handler` by `pointsman race --policy a.yaml,b.yaml`"));
    }
    let (train, test) = options.sources()?;
    let file = options.out.as_deref().map(Document::at).transpose()?;
    let page = options.html.as_deref().map(Document::at).transpose()?;
    let lora = train.workload(1, None).requests.iter().any(|r| r.lora.is_some());
    let mut knobs = options.search_parameters.clone();
    knobs.sort_unstable();
    knobs.dedup();
    let space = Space::new(lora, knobs, &fleet);
    workers::listen_for_interrupts();
    let threads = workers::cores(options.threads);
    let (objective, constraints) = (&options.objective, &options.subject_to[..]);
    let mut search = Search::new(objective.clone(), constraints.to_vec(), options.candidates as usize, &space, 1);
    let mut number = 0;
    while let Some(round) = search.round().filter(|_| !workers::stopped()) {
        number += 1;
        let choices: Vec<Choice> = round.candidates.iter().map(|candidate| space.choice(candidate)).collect();
        let label = format!("round {number}: {} candidates", choices.len());
        search.tell(&play(&options.race(&train, choices, round.seeds, round.after), threads, &label)?);
    }
    let best = search.best();
    let (roles, choices) = Comparison::plan(&space, best, search.frontier());
    let plan = options.race(&test, choices, options.seeds, search.used_seeds());
    let report = Report::of(&plan, &play(&plan, threads, "comparing")?);
    let tried = search.tried();
    let found = Comparison { objective, constraints, space: &space, best, tried, roles: &roles, report: &report };
    let document = text::document(&found);
    let written = file.map(|file| file.write(&document)).transpose();
    // A configuration that was not written is printed, so that the search was not for nothing.
    let told = if options.json {
        format!("{:#}\n", found.json(&document))
    } else if matches!(written, Ok(Some(()))) {
        text::table(&found)
    } else {
        text::table(&found) + "\n" + &document
    };
    let printed = super::print(&told);
    let drawn = page.map(|page| page.write(&report.html("Tune"))).transpose();
    for (path, done) in [(&options.out, written.is_ok()), (&options.html, drawn.is_ok())] {
        if let Some(path) = path.as_ref().filter(|_| done) {
            let _ = writeln!(std::io::stderr(), "written to {}", path.display());
        }
    }
    written.and(drawn)?;
    printed?;
    let cut = report.missing_runs > 0 || workers::stopped();
    if cut {
        let _ = writeln!(std::io::stderr(), "interrupted: this is the best so far, and not all of it was compared");
    }
    let keeps = found.winner().is_some_and(|row| found.broken(row).next().is_none());
    let better = found.against_default() == Some(Verdict::Better);
    Ok(if !cut && keeps && better { Exit::Fine } else { Exit::No })
}

fn play(plan: &Race, threads: usize, label: &str) -> Result<Vec<Done>, Failure> {
    workers::spread(&plan.jobs(), threads, &|_: &Job| label.to_owned(), &|_: &[&Done]| String::new(), &|job, tick| {
        plan.run(*job, tick).map_err(|e| Failure::new("a candidate cannot be used").why(e))
    })
}
