//! `pointsman trace inspect`: what a trace is like, before anything is played.

use std::path::PathBuf;

use clap::Args;
use hashbrown::HashMap;
use pointsman_lab::workload::{When, Workload, sharing};
use serde_json::json;

use super::files;
use crate::failure::{Exit, Failure};
use crate::terminal::{Paint, clean, thousands};

const EXAMPLES: &str = "\
Examples:
  pointsman trace inspect requests.jsonl
  pointsman trace inspect --json conversation_trace.jsonl.gz";

/// Which trace.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
pub(crate) struct Inspect {
    /// The trace, as `race --trace` takes it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

/// Reads it and prints what it is like.
pub(crate) fn run(options: &Inspect) -> Result<Exit, Failure> {
    let workload = files::trace(&options.file)?;
    let found = Found::of(&workload);
    let json = || format!("{:#}\n", found.json());
    super::print(&if options.json { json() } else { found.text(&workload.name, Paint::stdout()) })?;
    Ok(Exit::Fine)
}

/// Nanoseconds.
const MINUTE: u64 = 60_000_000_000;

/// Bars of the arrivals.
const PARTS: usize = 60;

struct Found {
    requests: usize,
    seconds: f64,
    input: Vec<u64>,
    output: Vec<u64>,
    /// Requests in each whole minute.
    per_minute: Vec<u64>,
    /// Requests in each of so many equal parts of the time.
    parts: Vec<u64>,
    unit: u32,
    sharing: pointsman_lab::workload::Sharing,
    once: f64,
    /// Leading units that the most prompts begin with: (depth, prompts).
    roots: Vec<(usize, usize)>,
}

impl Found {
    fn of(workload: &Workload) -> Self {
        let sorted = |of: &dyn Fn(&pointsman_lab::workload::Arrival) -> u64| {
            let mut values: Vec<u64> = workload.requests.iter().map(of).collect();
            values.sort_unstable();
            values
        };
        let times: Vec<u64> = workload
            .requests
            .iter()
            .filter_map(|r| match r.when {
                When::At(at) => Some(at.0),
                When::After(..) => None,
            })
            .collect();
        let last = times.iter().max().copied().unwrap_or(0);
        // The last minute is hardly ever whole, and would look like a lull.
        let mut per_minute = vec![0; usize::try_from(last / MINUTE).unwrap_or(0).min(100_000)];
        let mut parts = vec![0; PARTS];
        for at in &times {
            if let Some(minute) = usize::try_from(at / MINUTE).ok().and_then(|minute| per_minute.get_mut(minute)) {
                *minute += 1;
            }
            parts[((*at as f64 / last.max(1) as f64 * PARTS as f64) as usize).min(PARTS - 1)] += 1;
        }
        let unit = workload.requests.iter().map(|r| r.prompt.unit).max().unwrap_or(64);
        let mut uses: HashMap<u64, u32> = HashMap::new();
        for request in &workload.requests {
            for id in request.prompt.ids.iter() {
                *uses.entry(*id).or_default() += 1;
            }
        }
        let once = uses.values().filter(|n| **n == 1).count() as f64 / uses.len().max(1) as f64;
        let mut roots = Vec::new();
        for depth in [1, 2, 4, 8, 16] {
            let mut heads: HashMap<u64, usize> = HashMap::new();
            for request in &workload.requests {
                if let Some(id) = request.prompt.ids.get(depth - 1) {
                    *heads.entry(*id).or_default() += 1;
                }
            }
            roots.push((depth, heads.values().filter(|n| **n > 1).sum()));
        }
        Self {
            requests: workload.requests.len(),
            seconds: last as f64 / 1e9,
            input: sorted(&|r| r.prompt.tokens),
            output: sorted(&|r| r.output),
            per_minute,
            parts,
            unit,
            sharing: sharing(workload, unit, true),
            once,
            roots,
        }
    }

    fn json(&self) -> serde_json::Value {
        let lengths = |v: &[u64]| json!({"mean": mean(v), "p50": at(v, 0.5), "p90": at(v, 0.9), "p99": at(v, 0.99), "max": v.last()});
        json!({
            "requests": self.requests,
            "seconds": self.seconds,
            "input_tokens": lengths(&self.input),
            "output_tokens": lengths(&self.output),
            "requests_per_minute": self.per_minute,
            "block_tokens": self.unit,
            "sharing": self.sharing,
            "ideal_block_hit_ratio": self.sharing.block_ratio(),
            "ideal_token_hit_ratio": self.sharing.token_ratio(),
            "blocks_used_once": self.once,
            "requests_that_share_first_blocks": self.roots.iter().map(|(d, n)| json!({"blocks": d, "requests": n})).collect::<Vec<_>>(),
        })
    }

    /// What whole minutes have of requests, at a mean rate per second.
    fn minutes(&self, rate: f64) -> String {
        match (self.per_minute.iter().min(), self.per_minute.iter().max()) {
            (Some(low), Some(high)) => {
                format!(
                    "per minute: {low} to {high}, mean {:.0}, the incomplete last one left out",
                    mean(&self.per_minute)
                )
            }
            _ if rate > 0.0 => format!("per minute: {:.0} at this rate; there is no whole one", rate * 60.0),
            _ => "all at once".to_owned(),
        }
    }

    fn text(&self, name: &str, paint: Paint) -> String {
        let rate = if self.seconds > 0.0 { self.requests as f64 / self.seconds } else { 0.0 };
        let lengths = |v: &[u64]| {
            let n = |x| format!("{:>9}", thousands(x));
            format!(
                "{} {} {} {} {}",
                n(mean(v) as u64),
                n(at(v, 0.5)),
                n(at(v, 0.9)),
                n(at(v, 0.99)),
                n(v.last().copied().unwrap_or(0))
            )
        };
        let share = |n: usize| 100.0 * n as f64 / self.requests.max(1) as f64;
        let s = &self.sharing;
        let mut lines = vec![
            format!(
                "{}: {} requests in {:.0} s, {rate:.2} per second",
                paint.bold(&clean(name)),
                thousands(self.requests as u64),
                self.seconds
            ),
            String::new(),
            format!("  {:16} {:>9} {:>9} {:>9} {:>9} {:>9}", "tokens", "mean", "p50", "p90", "p99", "max"),
            format!("  {:16} {}", "prompt", lengths(&self.input)),
            format!("  {:16} {}", "answer", lengths(&self.output)),
            String::new(),
            format!("  arrivals         {}", bars(&self.parts)),
            format!("                   {}", self.minutes(rate)),
            String::new(),
            format!(
                "  sharing          {} references to {} blocks of {} tokens, {:.1} % of these used once",
                thousands(s.blocks),
                thousands(s.distinct),
                self.unit,
                self.once * 1e2
            ),
            format!(
                "  ideal hit ratio  {:.3} of blocks, {:.3} of tokens: what one endless cache would find",
                s.block_ratio(),
                s.token_ratio()
            ),
        ];
        for (depth, requests) in &self.roots {
            lines.push(format!(
                "  first {depth:2} blocks  {:5.1} % of the requests have them in common with another",
                share(*requests)
            ));
        }
        if s.hits == 0 {
            lines.push("  The prompts share nothing: a trace without content ids says nothing of cache hits.".into());
        }
        lines.join("\n") + "\n"
    }
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len().max(1) as f64
}

fn at(sorted: &[u64], q: f64) -> u64 {
    let rank = ((q * sorted.len() as f64).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).copied().unwrap_or(0)
}

fn bars(values: &[u64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let high = values.iter().max().copied().unwrap_or(0).max(1);
    values.iter().map(|n| LEVELS[(n * 7 / high) as usize]).collect()
}
