//! One line that says how far a long job is, on a terminal only.

use std::io::{IsTerminal, Write as _};
use std::time::{Duration, Instant};

use super::workers::REDRAW;
use crate::terminal::ago;

const WIDTH: usize = 24;

/// The line.
pub(super) struct Line {
    on: bool,
    last: Option<Instant>,
}

impl Line {
    pub(super) fn stderr() -> Self {
        Self { on: std::io::stderr().is_terminal(), last: None }
    }

    /// Whether it is time to show something.
    pub(super) fn is_due(&self) -> bool {
        self.on && self.last.is_none_or(|last| last.elapsed() >= REDRAW)
    }

    /// `share` of the work is done, 0 to 1.
    pub(super) fn show(&mut self, share: f64, elapsed: Duration, label: &str) {
        self.last = Some(Instant::now());
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", text(share, elapsed, label));
    }

    pub(super) fn clear(&mut self) {
        if self.on && self.last.is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
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
    fn the_line_tells_share_and_time_left() {
        let got = text(0.41, Duration::from_secs(8), "round-robin 3/5");
        assert_eq!(got, "[=========>              ]  41 %   11s left     round-robin 3/5");
    }
}
