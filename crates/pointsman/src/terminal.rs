//! How numbers, times and foreign text are shown.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::time::Duration;

/// Colours of a terminal, or nothing. They never carry a meaning that the text does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

impl Paint {
    /// No colours, whatever the terminal.
    pub(crate) const PLAIN: Paint = Paint(false);

    /// For what goes to stdout: colours on a terminal, unless `NO_COLOR` says no.
    pub(crate) fn stdout() -> Self {
        Self(wanted() && std::io::stdout().is_terminal())
    }

    /// The same for stderr.
    pub(crate) fn stderr() -> Self {
        Self(wanted() && std::io::stderr().is_terminal())
    }

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    pub(crate) fn bold<'t>(self, text: &'t str) -> Cow<'t, str> {
        self.with("1", text)
    }

    pub(crate) fn dim<'t>(self, text: &'t str) -> Cow<'t, str> {
        self.with("2", text)
    }

    pub(crate) fn good<'t>(self, text: &'t str) -> Cow<'t, str> {
        self.with("32", text)
    }

    pub(crate) fn bad<'t>(self, text: &'t str) -> Cow<'t, str> {
        self.with("31", text)
    }

    fn with<'t>(self, code: &str, text: &'t str) -> Cow<'t, str> {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m").into() } else { text.into() }
    }
}

fn wanted() -> bool {
    let no_color = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !no_color && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// `2,310`.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `1 token`, `2,310 tokens`.
pub(crate) fn count(n: u64, one: &str) -> String {
    format!("{} {one}{}", thousands(n), if n == 1 { "" } else { "s" })
}

/// `340 ms`, `12s`, `3m12s`, `2h05m`, `3d04h`: how long ago, for a person who watches.
pub(crate) fn ago(time: Duration) -> String {
    let s = time.as_secs();
    match s {
        0 => format!("{} ms", time.as_millis()),
        1..60 => format!("{s}s"),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
        _ => format!("{}d{:02}h", s / 86_400, s % 86_400 / 3_600),
    }
}

/// Milliseconds with three significant digits at most: `0.42 ms`, `61 ms`, `1.25 s`.
pub(crate) fn millis(ms: f64) -> String {
    match ms {
        ms if ms < 0.995 => format!("{ms:.2} ms"),
        ms if ms < 9.95 => format!("{ms:.1} ms"),
        ms if ms < 999.5 => format!("{ms:.0} ms"),
        ms if ms < 99_950.0 => format!("{:.2} s", ms / 1e3),
        ms => format!("{} s", thousands((ms / 1e3).round() as u64)),
    }
}

/// Text that came from outside, without what could move a terminal's cursor or reorder its line, and not endless.
pub(crate) fn clean(text: &str) -> String {
    const SHOWN: usize = 200;
    let safe = |c: char| match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    let mut out: String = text.chars().take(SHOWN).map(safe).collect();
    if text.chars().nth(SHOWN).is_some() {
        out.push_str("...");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_separators_and_units_their_plural() {
        assert_eq!([0, 999, 1_000, 2_310, 1_234_567].map(thousands), ["0", "999", "1,000", "2,310", "1,234,567"]);
        assert_eq!((count(1, "token"), count(2_310, "token")), ("1 token".into(), "2,310 tokens".into()));
    }

    #[test]
    fn times_have_two_units_at_most() {
        for (ms, want) in
            [(340, "340 ms"), (12_000, "12s"), (192_000, "3m12s"), (7_500_000, "2h05m"), (273_600_000, "3d04h")]
        {
            assert_eq!(ago(Duration::from_millis(ms)), want);
        }
        for (ms, want) in
            [(0.42, "0.42 ms"), (9.96, "10 ms"), (61.2, "61 ms"), (1_250.0, "1.25 s"), (123_456.0, "123 s")]
        {
            assert_eq!(millis(ms), want);
        }
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(clean("a\x1b[2J\n\u{202e}b"), "a\u{fffd}[2J\u{fffd}\u{fffd}b");
        assert_eq!(clean(&"x".repeat(500)).len(), 203);
    }
}
