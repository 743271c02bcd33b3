//! What an unquoted scalar means, as Kubernetes' YAML-to-JSON conversion has it.

use super::Value;

/// Resolves an unquoted scalar.
pub(crate) fn plain(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" => return Value::Bool(true),
        "false" | "False" | "FALSE" => return Value::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => return Value::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Value::Float(f64::NEG_INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Value::Float(f64::NAN),
        _ => {}
    }
    number(text).unwrap_or_else(|| Value::String { text: text.to_owned(), plain: true })
}

/// The booleans of YAML 1.1 that YAML 1.2 dropped.
pub(crate) fn yaml11_bool(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn number(text: &str) -> Option<Value> {
    let first = *text.as_bytes().first()?;
    if !(first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'.')) || text.len() > 400 {
        return None;
    }
    let digits: String = text.chars().filter(|&c| c != '_').collect();
    if let Some(int) = integer(&digits) {
        return Some(int);
    }
    is_float(&digits).then(|| digits.parse().ok().map(Value::Float)).flatten()
}

/// Whole numbers in Go's bases: `0x`, `0o`, `0b`, a leading `0` for octal, decimal. What does not fit an `i64` is a float.
fn integer(text: &str) -> Option<Value> {
    let (negative, body) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, body) = match body.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &body[2..]),
        [b'0', b'o' | b'O', ..] => (8, &body[2..]),
        [b'0', b'b' | b'B', ..] => (2, &body[2..]),
        [b'0', _, ..] => (8, &body[1..]),
        _ => (10, body),
    };
    if body.is_empty() || !body.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let magnitude = i128::from_str_radix(body, radix).unwrap_or(i128::MAX);
    let value = if negative { -magnitude } else { magnitude };
    Some(i64::try_from(value).map_or(Value::Float(value as f64), Value::Int))
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    fn digits(bytes: &[u8]) -> (usize, &[u8]) {
        let n = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
        (n, &bytes[n..])
    }
    let mut rest = text.as_bytes();
    if let [b'+' | b'-', tail @ ..] = rest {
        rest = tail;
    }
    let (whole, mut rest) = digits(rest);
    if let [b'.', tail @ ..] = rest {
        let (fraction, tail) = digits(tail);
        if whole + fraction == 0 {
            return false;
        }
        rest = tail;
    } else if whole == 0 {
        return false;
    }
    if let [b'e' | b'E', tail @ ..] = rest {
        let tail = if let [b'+' | b'-', t @ ..] = tail { t } else { tail };
        let (exponent, tail) = digits(tail);
        return exponent > 0 && tail.is_empty();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_scalars_resolve_as_kubernetes_resolves_them() {
        for (text, want) in [
            ("", Value::Null),
            ("~", Value::Null),
            ("NULL", Value::Null),
            ("True", Value::Bool(true)),
            ("false", Value::Bool(false)),
            ("0", Value::Int(0)),
            ("-12", Value::Int(-12)),
            ("+7", Value::Int(7)),
            ("1_000", Value::Int(1000)),
            ("0x1F", Value::Int(31)),
            ("0777", Value::Int(511)),
            ("0o17", Value::Int(15)),
            ("0b101", Value::Int(5)),
            ("9223372036854775807", Value::Int(i64::MAX)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("9223372036854775808", Value::Float(9_223_372_036_854_775_808.0)),
            ("0.5", Value::Float(0.5)),
            (".5", Value::Float(0.5)),
            ("5.", Value::Float(5.0)),
            ("1e3", Value::Float(1000.0)),
            ("-1.5E-2", Value::Float(-0.015)),
            (".inf", Value::Float(f64::INFINITY)),
            ("089", Value::Float(89.0)),
        ] {
            assert_eq!(plain(text), want, "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_a_number_or_a_boolean_stays_text() {
        for text in
            ["1Gi", "30s", "1.2.3", ".", "-", "+", "e5", "1e", "10.0.0.1", "yes", "on", "y", "truE", "inf", "nan", "0x"]
        {
            assert_eq!(plain(text), Value::String { text: text.to_owned(), plain: true }, "{text}");
        }
    }
}
