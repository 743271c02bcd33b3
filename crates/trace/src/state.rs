//! Whether a `tracestate` is one (W3C Trace Context 3.3).

/// Members at most.
const MAX_MEMBERS: usize = 32;

/// Counts the members of one header line; `None` when it is not valid.
pub(crate) fn members(line: &str) -> Option<usize> {
    line.split(',').map(|member| member.trim_matches([' ', '\t'])).filter(|member| !member.is_empty()).try_fold(
        0,
        |count, member| {
            let (key, value) = member.split_once('=')?;
            (is_key(key) && is_value(value)).then_some(count + 1)
        },
    )
}

/// Whether so many members, over all lines, are a `tracestate`.
pub(crate) fn is_count(members: usize) -> bool {
    (1..=MAX_MEMBERS).contains(&members)
}

fn is_key(key: &str) -> bool {
    let part = |text: &str, longest: usize, digit_first: bool| {
        let first = text.bytes().next();
        text.len() <= longest
            && first.is_some_and(|c| c.is_ascii_lowercase() || digit_first && c.is_ascii_digit())
            && text.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || b"_-*/".contains(&c))
    };
    match key.split_once('@') {
        Some((tenant, system)) => part(tenant, 241, true) && part(system, 14, false),
        None => part(key, 256, true),
    }
}

fn is_value(value: &str) -> bool {
    (1..=256).contains(&value.len())
        && !value.ends_with(' ')
        && value.bytes().all(|c| (0x20..=0x7e).contains(&c) && c != b',' && c != b'=')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_keys_with_values_and_empty_ones_do_not_count() {
        assert_eq!(members("a=b"), Some(1));
        assert_eq!(members("rojo=00f067aa0ba902b7, congo=t61rcWkgMzE,,"), Some(2));
        assert_eq!(members("fw529a3039@dt=FfffFfg;"), Some(1));
        assert_eq!(members(" "), Some(0));
        for bad in ["a", "=b", "a=", "A=b", "a=b=c", "a@1=x", "a b=c", "a=é"] {
            assert_eq!(members(bad), None, "{bad}");
        }
        assert!(!is_count(0) && is_count(32) && !is_count(33));
    }
}
