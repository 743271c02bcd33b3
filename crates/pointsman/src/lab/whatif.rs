//! `pointsman whatif`: recorded decisions, decided again by another configuration.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use clap::Args;
use pointsman_lab::policy::Choice;
use pointsman_lab::recording::Recorded;
use pointsman_lab::whatif::WhatIf;
use serde_json::json;

use super::setup::choice;
use super::{files, workers};
use crate::failure::{Exit, Failure};
use crate::terminal::{clean, thousands};

const EXAMPLES: &str = "\
Examples:
  pointsman whatif --config-file new.yaml recording.jsonl
  pointsman whatif --config-file chatbot decisions.jsonl";

/// What to decide again, and how.
#[derive(Args, Debug)]
#[command(before_help = EXAMPLES)]
#[command(
    after_help = "Each decision is taken for itself, with what was known at the time. To see what would have followed, replay the recording: \
    pointsman race --trace RECORDING --policy default,new.yaml"
)]
pub(crate) struct Whatif {
    /// The other configuration: a file, or a preset's name
    #[arg(long, value_name = "FILE|NAME")]
    config_file: String,
    /// What `record` wrote, or a decision log
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Default)]
struct Counts {
    decisions: u64,
    same: u64,
    equal: u64,
    other: u64,
    refused: u64,
    skipped: u64,
    /// Lines without candidates: there was nothing to choose from.
    without: u64,
    cached_gain: i64,
    waiting_gain: f64,
    /// From and to, by name, with how often.
    moves: BTreeMap<(String, String), u64>,
}

/// Decides all again and says what would have changed.
pub(crate) fn run(options: &Whatif) -> Result<Exit, Failure> {
    let Choice::Config { name, document, default } = choice(&options.config_file)? else {
        return Err(Failure::usage(format!("{} is no configuration", clean(&options.config_file)))
            .next("name a file or a preset"));
    };
    let mut whatif =
        WhatIf::new(&document, default).map_err(|e| Failure::usage(format!("{name} cannot be used")).why(e))?;
    workers::listen_for_interrupts();
    let mut counts = Counts::default();
    let mut begin = None;
    let read = files::lines(&options.recording, &mut |line| {
        match Recorded::read(line, &mut begin)? {
            Some(recorded) => counts.take(&mut whatif, &recorded),
            None => counts.without += 1,
        }
        Ok(!workers::stopped())
    });
    if counts.decisions == 0 {
        read?;
        return Err(Failure::usage(format!("{} holds no decisions", options.recording.display()))
            .next("wait until requests came while `pointsman record --out recording.jsonl` runs"));
    }
    super::print(&if options.json { format!("{:#}\n", counts.json(&name)) } else { counts.text(&name) })?;
    if let Err(failure) = read {
        let _ = writeln!(std::io::stderr(), "broken off: the figures are of the decisions before the fault");
        return Err(failure.exit(Exit::No));
    }
    if workers::stopped() {
        let _ = writeln!(std::io::stderr(), "interrupted: the figures are of the decisions up to here");
        return Ok(Exit::No);
    }
    Ok(Exit::Fine)
}

impl Counts {
    fn take(&mut self, whatif: &mut WhatIf, recorded: &Recorded) {
        self.decisions += 1;
        if recorded.picked.is_empty() {
            self.skipped += 1;
            return;
        }
        let again = whatif.decide(recorded);
        match again.picked {
            None => self.refused += 1,
            Some(picked) if picked == recorded.picked => self.same += 1,
            Some(_) if again.equal => self.equal += 1,
            Some(picked) => {
                self.other += 1;
                self.cached_gain += again.cached_gain;
                self.waiting_gain += again.waiting_gain;
                let name = |address: &str| recorded.name(address).to_owned();
                *self.moves.entry((name(&recorded.picked), name(&picked))).or_default() += 1;
            }
        }
    }

    fn most(&self) -> Vec<(&(String, String), &u64)> {
        let mut moves: Vec<_> = self.moves.iter().collect();
        moves.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        moves.truncate(10);
        moves
    }

    fn json(&self, name: &str) -> serde_json::Value {
        json!({
            "configuration": name,
            "decisions": self.decisions,
            "same": self.same,
            "equally_good": self.equal,
            "other": self.other,
            "refused": self.refused,
            "skipped": self.skipped,
            "without_candidates": self.without,
            "cached_tokens_gained": self.cached_gain,
            "waiting_requests_gained": self.waiting_gain,
            "moves": self.most().iter().map(|((from, to), n)| json!({"from": from, "to": to, "decisions": n})).collect::<Vec<_>>(),
        })
    }

    fn text(&self, name: &str) -> String {
        let share = |n: u64| format!("{:>10}   {:5.1} %", thousands(n), 100.0 * n as f64 / self.decisions as f64);
        let mut lines = vec![
            format!("{} decisions, decided again with {}", thousands(self.decisions), clean(name)),
            format!("  same endpoint        {}", share(self.same)),
            format!("  another, as good     {}", share(self.equal)),
            format!("  another, preferred   {}", share(self.other)),
        ];
        if self.refused > 0 {
            lines.push(format!("  refused              {}", share(self.refused)));
        }
        if self.skipped > 0 {
            lines.push(format!("  had been refused     {}", share(self.skipped)));
        }
        if self.without > 0 {
            lines.push(format!("  left out             {:>10}   they had no candidates", thousands(self.without)));
        }
        if self.other > 0 {
            let per = |x: f64| x / self.other as f64;
            lines.push(format!(
                "where another is preferred: {:+.0} prompt tokens believed cached, {:+.1} requests waiting, per decision",
                per(self.cached_gain as f64),
                per(self.waiting_gain)
            ));
            lines.extend(
                self.most()
                    .iter()
                    .map(|((from, to), n)| format!("  {} -> {}   {}", clean(from), clean(to), thousands(**n))),
            );
        }
        lines.join("\n") + "\n"
    }
}
