//! Steps with headings and durations, a table at the end, and one closing line that sums them.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::Result;

/// How many checks held and how many did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Checks that held.
    pub(crate) passed: u64,
    /// Checks that did not.
    pub(crate) failed: u64,
}

impl Tally {
    /// One check that held, or did not.
    pub(crate) fn one(held: bool) -> Self {
        Self { passed: u64::from(held), failed: u64::from(!held) }
    }

    /// The line that test runners end with.
    pub(crate) fn closing_line(self) -> String {
        format!("{} passed, {} failed", self.passed, self.failed)
    }
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Prints one check as it is made, and counts it.
pub(crate) fn check(tally: &mut Tally, held: bool, what: impl fmt::Display) {
    println!("  {} {what}", if held { "ok    " } else { "FAILED" });
    *tally += Tally::one(held);
}

/// What became of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran; this many checks held and failed.
    Ran(Tally),
    /// It did not run, and why that is no failure.
    Skipped(String),
}

struct Row {
    name: &'static str,
    took: Duration,
    outcome: Outcome,
}

/// The steps of one run, in order.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
    /// Runs a step. An error is a failed check of that step: later steps still run, so that one run tells everything.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<Outcome>) {
        println!("\n=== {name} ===");
        let start = Instant::now();
        let outcome = work().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome::Ran(Tally::one(false))
        });
        let took = start.elapsed();
        match &outcome {
            Outcome::Ran(tally) => println!("--- {name}: {}, {}", tally.closing_line(), seconds(took)),
            Outcome::Skipped(why) => println!("--- {name}: skipped: {why}"),
        }
        self.rows.push(Row { name, took, outcome });
    }

    /// Prints the table and the closing line; returns the sum.
    pub(crate) fn close(&self) -> Tally {
        println!("\n{:<24} {:>8} {:>8} {:>9}", "step", "passed", "failed", "time");
        for row in &self.rows {
            match &row.outcome {
                Outcome::Ran(tally) => {
                    println!("{:<24} {:>8} {:>8} {:>9}", row.name, tally.passed, tally.failed, seconds(row.took));
                }
                Outcome::Skipped(why) => println!("{:<24} skipped: {why}", row.name),
            }
        }
        let sum = self.sum();
        println!("\n{}", sum.closing_line());
        sum
    }

    fn sum(&self) -> Tally {
        let mut sum = Tally::default();
        for row in &self.rows {
            if let Outcome::Ran(tally) = row.outcome {
                sum += tally;
            }
        }
        sum
    }
}

/// A duration as a person reads it.
fn seconds(took: Duration) -> String {
    let whole = took.as_secs();
    if whole >= 60 { format!("{} min {:02} s", whole / 60, whole % 60) } else { format!("{:.1} s", took.as_secs_f64()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_errs_counts_as_one_failure_and_later_steps_still_run() {
        let mut report = Report::default();
        report.step("breaks", || anyhow::bail!("no such tool"));
        report.step("holds", || Ok(Outcome::Ran(Tally { passed: 3, failed: 0 })));
        assert_eq!(report.close(), Tally { passed: 3, failed: 1 });
    }

    #[test]
    fn a_skipped_step_counts_neither_way() {
        let mut report = Report::default();
        report.step("absent", || Ok(Outcome::Skipped("not installed".into())));
        assert_eq!(report.close(), Tally::default());
    }

    #[test]
    fn the_closing_line_is_what_test_runners_print() {
        assert_eq!(Tally { passed: 12, failed: 1 }.closing_line(), "12 passed, 1 failed");
    }
}
