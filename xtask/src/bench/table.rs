//! The table of ratios, in Markdown.

use std::fmt;

use super::measure::Found;
use super::rows::{Aim, Figure, Row};

/// A server whose threads wait for a processor for this share of the time was disturbed, by others or by itself.
const DISTURBED: f64 = 0.25;

/// Figures of both servers, row by row.
pub(super) struct Table {
    subject: &'static str,
    rows: Vec<Rounds>,
}

struct Rounds {
    row: &'static Row,
    echo: Vec<Found>,
    own: Vec<Found>,
}

impl Table {
    /// A table of `subject` against the echo.
    pub(super) fn new(subject: &'static str) -> Self {
        Self { subject, rows: Vec::new() }
    }

    /// Adds a measurement.
    pub(super) fn push(&mut self, row: &'static Row, is_echo: bool, found: Found) {
        if self.rows.last().is_none_or(|last| last.row.name != row.name) {
            self.rows.push(Rounds { row, echo: Vec::new(), own: Vec::new() });
        }
        if let Some(rounds) = self.rows.last_mut() {
            if is_echo { rounds.echo.push(found) } else { rounds.own.push(found) }
        }
    }

    /// What more candidates cost a request in processor time, ms: between 10 and 500 engines, both servers' medians.
    fn more_candidates(&self) -> Option<(f64, f64)> {
        let cost = |name: &str| {
            let rounds = self.rows.iter().find(|rounds| rounds.row.name == name)?;
            let figure = Figure::CpuWithoutScraping;
            Some((median(&rounds.echo, figure)?, median(&rounds.own, figure)?))
        };
        let ((few_echo, few), (many_echo, many)) = (cost("rate-10")?, cost("rate-500")?);
        Some((many_echo - few_echo, many - few))
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| load | figure | echo | {} | ratio | target | |", self.subject)?;
        writeln!(f, "| --- | --- | ---: | ---: | ---: | --- | --- |")?;
        for rounds in &self.rows {
            let mut title = rounds.row.title;
            let figures = rounds.own.first().map(|found| &found.figures[..]).unwrap_or_default();
            for &(figure, _) in figures {
                let (Some(echo), Some(own)) = (median(&rounds.echo, figure), median(&rounds.own, figure)) else {
                    continue;
                };
                let aim = rounds.row.aims.iter().find(|(aimed, _)| *aimed == figure).map(|(_, aim)| *aim);
                line(f, title, figure.title(), echo, own, aim)?;
                title = "";
            }
            let faults = |found: &[Found]| found.iter().map(|found| found.faults).sum::<u64>() as f64;
            let (echo, own) = (faults(&rounds.echo), faults(&rounds.own));
            if echo + own > 0.0 {
                line(f, title, "failed or wrong answers", echo, own, Some(Aim::Below(1.0)))?;
            }
        }
        if let Some((echo, own)) = self.more_candidates() {
            line(f, "490 more candidates", "CPU per request, ms", echo, own, Some(Aim::Below(0.15)))?;
        }
        let missed: usize = self.rows.iter().map(Rounds::missed).sum();
        let rounds = self.rows.iter().map(|rounds| rounds.own.len()).max().unwrap_or(0);
        write!(f, "\nMedians of {rounds} alternating rounds. Targets missed: {missed}.")?;
        let waited =
            self.rows.iter().flat_map(|rounds| rounds.echo.iter().chain(&rounds.own)).map(|found| found.waited);
        let waited = waited.fold(0.0, f64::max);
        if waited > DISTURBED {
            let share = 100.0 * waited;
            write!(
                f,
                " Servers waited for a processor up to {share:.0} % of the time: only figures per CPU time compare."
            )?;
        }
        Ok(())
    }
}

impl Rounds {
    fn missed(&self) -> usize {
        let missed = self.row.aims.iter().filter(|(figure, aim)| {
            let (echo, own) = (median(&self.echo, *figure), median(&self.own, *figure));
            !matches!((echo, own), (Some(echo), Some(own)) if aim.met(own, echo))
        });
        missed.count()
    }
}

fn line(f: &mut fmt::Formatter<'_>, title: &str, figure: &str, echo: f64, own: f64, aim: Option<Aim>) -> fmt::Result {
    let ratio = if echo > 0.0 { format!("{:.2}", own / echo) } else { "-".to_owned() };
    let target = match aim {
        Some(Aim::AtLeast(share)) => format!("≥ {share:.2}"),
        Some(Aim::AtMost(times)) => format!("≤ {times:.2}"),
        Some(Aim::Below(most)) => format!("< {most}"),
        Some(Aim::From(least)) => format!("≥ {least} itself"),
        None => String::new(),
    };
    let verdict = match aim.map(|aim| aim.met(own, echo)) {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "",
    };
    writeln!(f, "| {title} | {figure} | {} | {} | {ratio} | {target} | {verdict} |", number(echo), number(own))
}

/// Three or four digits, whatever the size.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// The middle of the rounds; `None` when no round has the figure.
fn median(rounds: &[Found], wanted: Figure) -> Option<f64> {
    let values = rounds.iter().filter_map(|found| found.figures.iter().find(|(figure, _)| *figure == wanted));
    let mut values: Vec<f64> = values.map(|(_, value)| *value).collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(values[odd / 2]),
        even => Some(f64::midpoint(values[even / 2 - 1], values[even / 2])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::rows::ROWS;

    fn found(rate: f64, memory: f64) -> Found {
        Found { figures: vec![(Figure::RatePerCore, rate), (Figure::Memory, memory)], faults: 0, waited: 0.0 }
    }

    #[test]
    fn the_table_compares_medians_with_targets() {
        let mut table = Table::new("pointsman");
        for (echo, own) in [(9_000.0, 7_500.0), (100.0, 50.0), (9_100.0, 7_700.0)] {
            table.push(&ROWS[0], true, found(echo, 5.0));
            table.push(&ROWS[0], false, found(own, 26.0));
        }
        let text = table.to_string();
        assert!(
            text.contains("| 1 KB bodies, closed loop | per second of CPU | 9000 | 7500 | 0.83 | ≥ 0.80 | met |"),
            "{text}"
        );
        assert!(text.contains("|  | peak RSS, MiB | 5.00 | 26.0 | 5.20 | < 25 | **missed** |"), "{text}");
        assert!(text.ends_with("Medians of 3 alternating rounds. Targets missed: 1."), "{text}");
    }

    #[test]
    fn the_median_of_an_even_number_of_rounds_lies_between_the_middle_two() {
        let rounds = [found(1.0, 0.0), found(4.0, 0.0), found(2.0, 0.0), found(8.0, 0.0)];
        assert_eq!(median(&rounds, Figure::RatePerCore), Some(3.0));
        assert_eq!(median(&rounds, Figure::CpuPerEvent), None);
    }
}
