//! Go durations and Kubernetes quantities, as the documents write them.

use std::str::FromStr;

/// Why a text is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// No number where one is wanted.
    #[error("write for example `30s`, `250ms` or `1m30s`")]
    NotADuration,
    /// A number without its unit.
    #[error("a unit is missing: ns, us, ms, s, m or h")]
    MissingUnit,
    /// A unit that does not exist.
    #[error("units are ns, us, ms, s, m and h")]
    UnknownUnit,
    /// More than 292 years.
    #[error("too long")]
    TooLong,
}

/// Parses `1m30s`, `250ms`, `1.5h`, `-1s`, `0` into nanoseconds. Anything longer than an `i64` of them is an error, as in Go.
///
/// # Errors
/// When the text is not a duration.
pub fn parse_duration(text: &str) -> Result<i64, DurationError> {
    let (sign, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(DurationError::NotADuration);
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number = rest.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(rest.len());
        let (digits, tail) = rest.split_at(number);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(DurationError::NotADuration);
        }
        let unit = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (name, tail) = tail.split_at(unit);
        let nanos: i128 = match name {
            "" => return Err(DurationError::MissingUnit),
            "ns" => 1,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return Err(DurationError::UnknownUnit),
        };
        let whole: i128 =
            if whole.is_empty() { 0 } else { whole.parse::<i64>().map_err(|_| DurationError::TooLong)?.into() };
        total += whole * nanos;
        // Digits past the 18th are far below a nanosecond of an hour.
        let mut scale = nanos * 1_000_000_000_000_000_000;
        for digit in fraction.bytes().take(18) {
            scale /= 10;
            total += i128::from(digit - b'0') * scale / 1_000_000_000_000_000_000;
        }
        if total > i128::from(i64::MAX) {
            return Err(DurationError::TooLong);
        }
        rest = tail;
    }
    i64::try_from(sign * total).map_err(|_| DurationError::TooLong)
}

/// A Kubernetes quantity: a decimal number with a suffix (`k`, `M`, `G`, ..., `Ki`, `Mi`, ..., `m`, `u`, `n`, or an exponent).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantity {
    value: i64,
}

impl Quantity {
    /// In the base unit, rounded away from zero, at most what an `i64` holds.
    #[must_use]
    pub fn value(self) -> i64 {
        self.value
    }
}

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write a number with an optional suffix: `1000`, `500M`, `1Gi`, `1k`")]
pub struct QuantityError;

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (negative, body) = match text.as_bytes().first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let number = body.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(body.len());
        let (digits, suffix) = body.split_at(number);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        // No real limit has more than a few digits; 40 keep the arithmetic below exact or saturating.
        if whole.len() + fraction.len() == 0 || whole.len() + fraction.len() > 40 || fraction.contains('.') {
            return Err(QuantityError);
        }
        let (numerator, exponent): (i128, i32) = match suffix {
            "" => (1, 0),
            "n" => (1, -9),
            "u" => (1, -6),
            "m" => (1, -3),
            "k" => (1, 3),
            "M" => (1, 6),
            "G" => (1, 9),
            "T" => (1, 12),
            "P" => (1, 15),
            "E" => (1, 18),
            "Ki" => (1 << 10, 0),
            "Mi" => (1 << 20, 0),
            "Gi" => (1 << 30, 0),
            "Ti" => (1 << 40, 0),
            "Pi" => (1 << 50, 0),
            "Ei" => (1 << 60, 0),
            other => {
                let exponent = other.strip_prefix(['e', 'E']).filter(|e| !e.is_empty()).ok_or(QuantityError)?;
                (1, exponent.parse::<i32>().map_err(|_| QuantityError)?)
            }
        };
        let digits = format!("{whole}{fraction}").parse::<i128>().unwrap_or(i128::MAX);
        let product = digits.saturating_mul(numerator);
        let exponent = exponent.saturating_sub(fraction.len() as i32);
        let magnitude = match 10i128.checked_pow(exponent.unsigned_abs()) {
            Some(power) if exponent >= 0 => product.saturating_mul(power),
            Some(power) => product / power + i128::from(product % power != 0),
            None if exponent >= 0 && product != 0 => i128::MAX,
            None => i128::from(product != 0),
        };
        let magnitude = i64::try_from(magnitude).unwrap_or(i64::MAX);
        Ok(Self { value: if negative { -magnitude } else { magnitude } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        const S: i64 = 1_000_000_000;
        for (text, want) in [
            ("0", Ok(0)),
            ("0s", Ok(0)),
            ("30s", Ok(30 * S)),
            ("1m30s", Ok(90 * S)),
            ("250ms", Ok(S / 4)),
            ("1.5h", Ok(5400 * S)),
            (".5s", Ok(S / 2)),
            ("1.s", Ok(S)),
            ("-1s", Ok(-S)),
            ("+2us", Ok(2000)),
            ("3µs", Ok(3000)),
            ("1h2m3s4ms5us6ns", Ok(3723 * S + 4_005_006)),
            ("0.000000001s", Ok(1)),
            ("10", Err(DurationError::MissingUnit)),
            ("", Err(DurationError::NotADuration)),
            ("-", Err(DurationError::NotADuration)),
            ("s", Err(DurationError::NotADuration)),
            (".s", Err(DurationError::NotADuration)),
            ("1.2.3s", Err(DurationError::NotADuration)),
            ("1d", Err(DurationError::UnknownUnit)),
            ("1 s", Err(DurationError::UnknownUnit)),
            ("9999999h", Err(DurationError::TooLong)),
            ("99999999999999999999999s", Err(DurationError::TooLong)),
        ] {
            assert_eq!(parse_duration(text), want, "{text}");
        }
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        for (text, want) in [
            ("0", 0),
            ("1000", 1000),
            ("-1", -1),
            ("1k", 1000),
            ("500M", 500_000_000),
            ("1Gi", 1 << 30),
            ("1.5Ki", 1536),
            ("0.5", 1),
            ("100m", 1),
            ("1500m", 2),
            ("1e3", 1000),
            ("12E2", 1200),
            ("1E", 1_000_000_000_000_000_000),
            ("16Ei", i64::MAX),
            ("1e40", i64::MAX),
            ("1e-40", 1),
            (".5", 1),
            ("5.", 5),
        ] {
            assert_eq!(text.parse::<Quantity>().map(Quantity::value), Ok(want), "{text}");
        }
        for text in ["", "-", ".", "1.2.3", "Gi", "1GB", "1gi", "1 Gi", "1ee3", "1e", "ten"] {
            assert_eq!(text.parse::<Quantity>(), Err(QuantityError), "{text}");
        }
    }
}
