//! What stands behind the name on the line of a sample.

use super::labels::{Labels, trim};

pub(super) struct Series<'p> {
    pub(super) labels: Labels<'p>,
    pub(super) value: f64,
    pub(super) timestamp: Option<i64>,
}

/// Takes labels, value and timestamp apart; an exemplar behind them is passed over.
pub(super) fn parse(after_name: &[u8]) -> Option<Series<'_>> {
    let rest = trim(after_name);
    let (labels, rest) = match rest.strip_prefix(b"{") {
        Some(inside) => Labels::parse(inside)?,
        None => (Labels::default(), rest),
    };
    let (value, rest) = word(rest);
    let value = number(value)?;
    let (stamp, rest) = word(rest);
    let timestamp = match stamp {
        [] | [b'#', ..] => return Some(Series { labels, value, timestamp: None }),
        stamp => Some(milliseconds(stamp)?),
    };
    matches!(word(rest).0, [] | [b'#', ..]).then_some(Series { labels, value, timestamp })
}

/// The next word and what stands behind it.
fn word(text: &[u8]) -> (&[u8], &[u8]) {
    let text = trim(text);
    let len = text.iter().position(|b| matches!(b, b' ' | b'\t' | b'\r')).unwrap_or(text.len());
    text.split_at(len)
}

/// A float as Prometheus writes it: decimal, `NaN`, `+Inf`, `-Inf`.
fn number(word: &[u8]) -> Option<f64> {
    std::str::from_utf8(word).ok()?.parse().ok()
}

/// A timestamp: whole milliseconds, or in OpenMetrics seconds with a fraction.
fn milliseconds(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    if let Ok(ms) = text.parse() {
        return Some(ms);
    }
    let seconds: f64 = text.parse().ok()?;
    seconds.is_finite().then_some((seconds * 1000.0) as i64)
}
