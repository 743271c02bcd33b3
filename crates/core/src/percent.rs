//! Percent-encoding, as paths and OpenTelemetry's variables have it.

/// What a percent-encoded text means; `None` when it is broken, or means no UTF-8.
#[must_use]
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(b) = bytes.next() {
        if b == b'%' {
            let mut digit = || bytes.next().and_then(|d| (d as char).to_digit(16));
            let (high, low) = (digit()?, digit()?);
            out.push((high * 16 + low) as u8);
        } else {
            out.push(b);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_encodings_mean_nothing() {
        assert_eq!(percent_decoded("a%20b%C3%BC").as_deref(), Some("a b\u{fc}"));
        for broken in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(percent_decoded(broken), None, "{broken}");
        }
    }
}
