//! Sizes as Kubernetes writes them.

/// A size of the message flags: `10MiB`, `25MB`, `4194304`; one trailing `B` or `b` is dropped, the rest is a Kubernetes quantity. Empty: 0.
pub(super) fn quantity(text: &str) -> Result<usize, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(0);
    }
    let number = text.strip_suffix(['B', 'b']).unwrap_or(text);
    let digits = number.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(number.len());
    let (number, unit) = number.split_at(digits);
    let value: f64 = number.parse().map_err(|_| "it begins with no number".to_owned())?;
    let factor: f64 = match unit {
        "" => 1.0,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        "m" => 1e-3,
        _ => return Err(format!("`{unit}` is not a unit (Ki, Mi, Gi, k, M, G)")),
    };
    let size = (value * factor).ceil();
    if !(0.0..=2_147_483_647.0).contains(&size) {
        return Err("it is not between 0 and 2 GiB".to_owned());
    }
    Ok(size as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_kubernetes_quantities_with_one_b_dropped() {
        for (text, bytes) in [
            ("10MiB", 10_485_760),
            ("25MB", 25_000_000),
            ("4194304", 4_194_304),
            ("", 0),
            ("0", 0),
            ("1.5Ki", 1536),
            ("7b", 7),
        ] {
            assert_eq!(quantity(text), Ok(bytes), "{text}");
        }
        for bad in ["ten", "-1", "10XiB", "B", "1e99", "3Gi"] {
            assert!(quantity(bad).is_err(), "{bad}");
        }
    }
}
