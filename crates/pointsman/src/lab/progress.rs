//! How far a long job is, on a terminal only: what there is so far, and a line below it. It is gone when the job is over.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use super::workers::REDRAW;
use crate::terminal::ago;

const WIDTH: usize = 24;

/// Time between two tables.
const RETOLD: Duration = Duration::from_secs(1);

/// What is shown, and what of it stands on the screen.
pub(super) struct Live {
    on: bool,
    last: Option<Instant>,
    /// When there was last something to tell.
    told: Option<Instant>,
    table: String,
    /// Lines above the one with the cursor.
    above: usize,
}

impl Live {
    pub(super) fn stderr() -> Self {
        Self { on: std::io::stderr().is_terminal(), last: None, told: None, table: String::new(), above: 0 }
    }

    /// Whether anybody wants to know what there is so far: summing it up takes longer the more there is.
    pub(super) fn is_curious(&self) -> bool {
        self.on && self.told.is_none_or(|told| told.elapsed() >= RETOLD)
    }

    /// What there is so far.
    pub(super) fn tell(&mut self, table: String) {
        self.table = table;
        self.told = Some(Instant::now());
        self.last = None;
    }

    /// Whether it is time to show something.
    pub(super) fn is_due(&self) -> bool {
        self.on && self.last.is_none_or(|last| last.elapsed() >= REDRAW)
    }

    /// `share` of the work is done, 0 to 1.
    pub(super) fn show(&mut self, share: f64, elapsed: Duration, label: &str) {
        self.last = Some(Instant::now());
        let (columns, rows) = ratatui::crossterm::terminal::size().unwrap_or((80, 24));
        let (table, above) = fitting(&self.table, usize::from(columns), usize::from(rows));
        let _ = write!(std::io::stderr(), "{}{table}\x1b[J{}", self.back(), text(share, elapsed, label));
        self.above = above;
    }

    pub(super) fn clear(&mut self) {
        if self.on {
            let _ = write!(std::io::stderr(), "{}\x1b[J", self.back());
            self.above = 0;
        }
    }

    /// To where it begins.
    fn back(&self) -> String {
        if self.above > 0 { format!("\r\x1b[{}A", self.above) } else { "\r".to_owned() }
    }
}

/// What of a table has room above one more line, and its number of lines: a wrapped or scrolled line could not be overwritten.
fn fitting(table: &str, columns: usize, rows: usize) -> (String, usize) {
    let lines: Vec<&str> = table.lines().collect();
    let shown = &lines[lines.len().saturating_sub(rows.saturating_sub(2))..];
    let cut = |line: &&str| line.chars().take(columns.saturating_sub(1)).collect::<String>() + "\x1b[K\n";
    (shown.iter().map(cut).collect(), shown.len())
}

fn text(share: f64, elapsed: Duration, label: &str) -> String {
    let share = share.clamp(0.0, 1.0);
    let full = (share * WIDTH as f64) as usize;
    let bar: String = (0..WIDTH)
        .map(|at| {
            if at < full {
                '='
            } else if at == full {
                '>'
            } else {
                ' '
            }
        })
        .collect();
    let left = if share > 0.02 && elapsed.as_secs_f64() > 0.5 {
        format!("{} left", ago(Duration::from_secs_f64(elapsed.as_secs_f64() * (1.0 - share) / share)))
    } else {
        String::new()
    };
    format!("[{bar}] {:3.0} %   {left:12} {label}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_never_wraps_or_scrolls() {
        let (text, above) = fitting("one\ntwo\nthree four\n", 6, 4);
        assert_eq!((text.as_str(), above), ("two\x1b[K\nthree\x1b[K\n", 2));
        assert_eq!(fitting("", 80, 24), (String::new(), 0));
    }

    #[test]
    fn the_line_tells_share_and_time_left() {
        let got = text(0.41, Duration::from_secs(8), "round-robin 3/5");
        assert_eq!(got, "[=========>              ]  41 %   11s left     round-robin 3/5");
    }
}
