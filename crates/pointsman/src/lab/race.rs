//! `pointsman race`: policies head to head on one workload and one fleet.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;

use clap::Args;
use pointsman_lab::race::{Axis, Done, Race as Plan};
use pointsman_lab::report::{Report, Row, SetUp};

use super::files::Document;
use super::setup::{Engines, Traffic, choices, fits};
use super::{table, workers};
use crate::failure::{Exit, Failure};
use crate::terminal::{Paint, clean, count, thousands};

const EXAMPLES: &str = "\
Examples:
  pointsman race
  pointsman race --trace requests.jsonl --pods 8 --profile 70b-4xh100 --policy default,least-request,mine.yaml
  pointsman race --workload shared-prefix:groups=50,requests=1000 --sweep rate=5,10,20,40 --html race.html";

/// Who runs what.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
#[command(
    after_help = "Engines are simulated, the router is the real one. Each figure is a mean over seeds with its 95 % confidence interval.\n\
    Ends with 0 when all runs were made, with 1 when an interrupt left some out."
)]
pub(crate) struct Race {
    #[command(flatten)]
    traffic: Traffic,
    #[command(flatten)]
    engines: Engines,
    /// Policies: names, presets, configuration files
    #[arg(long, value_delimiter = ',', value_name = "NAME|FILE", default_values = ["round-robin", "least-connections", "random", "default"])]
    policy: Vec<String>,
    /// Runs of each policy, each with a seed of its own
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Runs at once; by default one per core
    #[arg(long, value_name = "N", value_parser = workers::threads())]
    threads: Option<u16>,
    /// Repeat the race for several values of rate, pods, cache, scrape or routers
    #[arg(long, value_name = "AXIS=A,B,..", value_parser = sweep)]
    sweep: Option<(Axis, Vec<f64>)>,
    /// Print everything as JSON
    #[arg(long, conflicts_with_all = ["csv", "markdown"])]
    json: bool,
    /// Print everything as CSV
    #[arg(long, conflicts_with = "markdown")]
    csv: bool,
    /// Print tables as Markdown
    #[arg(long)]
    markdown: bool,
    /// Also write a page with plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// What `race` plays without being told.
const WITHOUT: &str = "shared-prefix:rate=20";

fn sweep(text: &str) -> Result<(Axis, Vec<f64>), String> {
    let expected = "rate=.., pods=.., cache=.., scrape=.. or routers=.. with numbers above 0, separated by commas";
    let (name, values) = text.split_once('=').ok_or(expected)?;
    let axis = Axis::named(name).ok_or(expected)?;
    let (lowest, highest) = match axis {
        Axis::Pods => (1.0, 4_096.0),
        Axis::Routers => (1.0, 64.0),
        Axis::Scrape => (1.0, 1_000_000.0),
        Axis::Rate => (0.001, 1_000_000.0),
        Axis::Cache => (0.001, 100.0),
    };
    let number = |v: &str| v.trim().parse::<f64>().ok().filter(|n| n.is_finite() && (lowest..=highest).contains(n));
    let values: Option<Vec<f64>> = values.split(',').map(number).collect();
    let values = values.filter(|v| !v.is_empty() && v.len() <= 100);
    values.map(|v| (axis, v)).ok_or_else(|| format!("{expected}, each from {lowest} to {highest}"))
}

/// Runs the race.
pub(crate) fn run(options: &Race) -> Result<Exit, Failure> {
    if let Some(list) = options.traffic.list().or_else(|| options.engines.list()) {
        std::io::stdout().lock().write_all(list.as_bytes())?;
        return Ok(Exit::Fine);
    }
    let choices = choices(&options.policy)?;
    let plan = Plan {
        source: options.traffic.source(WITHOUT)?,
        fleet: options.engines.fleet(),
        choices,
        seeds: options.seeds,
        after: 0,
        slo: options.engines.slo(),
        rate: options.traffic.rate,
        sweep: options.sweep.clone(),
    };
    plan.points().try_for_each(|point| fits(&plan.at(point).0))?;
    if plan.fleet.pods == 1 && plan.sweep.is_none() {
        let _ =
            writeln!(std::io::stderr(), "note: with one engine there is nothing to choose, all policies do the same");
    }
    let page = options.html.as_deref().map(Document::at).transpose()?;
    workers::listen_for_interrupts();
    let jobs = plan.jobs();
    let label =
        |job: &pointsman_lab::race::Job| format!("{} {}/{}", plan.choices[job.choice].name(), job.seed, plan.seeds);
    let began = std::time::Instant::now();
    let set_up = SetUp::of(&plan);
    let so_far = |done: &[&Done]| table::race(&Report::with(set_up.clone(), &plan, done), Paint::PLAIN, columns());
    let done = workers::spread(&jobs, workers::cores(options.threads), &label, &so_far, &|job, tick| {
        plan.run(*job, tick)
            .map_err(|e| Failure::usage(format!("{} cannot be used", plan.choices[job.choice].name())).why(e))
    })?;
    let report = Report::with(set_up.clone(), &plan, &done.iter().collect::<Vec<_>>());
    let text = if options.json {
        report.json()
    } else if options.csv {
        report.csv()
    } else if options.markdown {
        report.markdown()
    } else {
        table::race(&report, Paint::stdout(), if std::io::stdout().is_terminal() { columns() } else { usize::MAX })
    };
    let printed = super::print(&text);
    let drawn = page.map(|page| page.write(&report.html("Race"))).transpose()?;
    printed?;
    let whole = done.iter().filter(|d| !d.cut).count();
    let steps: u64 = done.iter().map(|d| d.steps).sum();
    let took = began.elapsed().as_secs_f64();
    let _ = writeln!(
        std::io::stderr(),
        "{} in {took:.1} s, {} simulated",
        count(whole as u64, "whole run"),
        count(steps, "engine step")
    );
    if let Some(path) = options.html.as_ref().filter(|_| drawn.is_some()) {
        let _ = writeln!(std::io::stderr(), "report: {}", path.display());
    }
    if let Some(note) = refusals(&report) {
        let _ = writeln!(std::io::stderr(), "{note}");
    }
    if report.missing_runs > 0 {
        let _ = writeln!(
            std::io::stderr(),
            "interrupted: {} of {} are missing{}",
            report.missing_runs,
            count(jobs.len() as u64, "run"),
            if whole > 0 { ", the figures are of the others" } else { ": there are no figures" }
        );
        return Ok(Exit::No);
    }
    Ok(Exit::Fine)
}

/// Width of the terminal.
fn columns() -> usize {
    ratatui::crossterm::terminal::size().map_or(usize::MAX, |(columns, _)| usize::from(columns))
}

/// What to think of requests that were not completed.
fn refusals(report: &Report) -> Option<String> {
    let s = &report.set_up;
    let most = |figure: &str| {
        let number = |row: &Row| row.metrics.get(figure).mean;
        let worst = report.policies.iter().max_by(|a, b| number(a).total_cmp(&number(b)))?;
        (number(worst) > 0.0).then(|| (number(worst), clean(&worst.policy)))
    };
    let all = thousands((s.requests - s.warm.min(s.requests)) as u64);
    let unplaced = most("unplaced").map(|(number, policy)| {
        format!(
            "note: {policy} found no endpoint for {number:.1} of {all} requests: {}",
            if s.outages.is_empty() {
                "its filters left none; engines have roles with --prefill-pods only"
            } else {
                "none was up, or its filters left none"
            }
        )
    });
    let refused = most("refused").map(|(number, policy)| {
        format!(
            "note: engines refused {number:.1} of {all} requests of {policy}: an engine holds {} tokens, the longest request has {}; up to {} requests wait",
            thousands(s.cache_tokens),
            thousands(s.longest_request),
            thousands(s.max_waiting),
        )
    });
    let broken = most("broken").map(|(number, policy)| {
        format!("note: {policy} lost {number:.1} requests: their engine died after their first token, or their prompt's KV was given up")
    });
    let seconds = report.policies.iter().map(|row| row.metrics.get("seconds").mean).fold(0.0, f64::max);
    let late = s.outages.iter().find(|(_, from, _)| *from > seconds).filter(|_| seconds > 0.0);
    let late = late.map(|(pod, from, _)| {
        format!("note: engine {pod} was to die after {from} s, the runs were over after {seconds:.0} s")
    });
    let notes: Vec<String> = [unplaced, refused, broken, late].into_iter().flatten().collect();
    (!notes.is_empty()).then(|| notes.join("\n"))
}
