//! Whether a `baggage` is one (W3C Baggage 3.3).

/// Bytes at most, over all lines.
pub(crate) const MAX_BYTES: usize = 8192;
/// Members at most. The standard asks for 64 at least; upstream passes 180.
pub(crate) const MAX_MEMBERS: usize = 180;

/// Counts the members of one header line; `None` when it is not valid.
pub(crate) fn members(line: &str) -> Option<usize> {
    line.split(',').try_fold(0, |count, member| {
        let mut parts = member.split(';');
        let (key, value) = parts.next()?.split_once('=')?;
        let property = |p: &str| match p.split_once('=') {
            Some((key, value)) => is_token(trim(key)) && is_value(trim(value)),
            None => is_token(trim(p)),
        };
        (is_token(trim(key)) && is_value(trim(value)) && parts.all(property)).then_some(count + 1)
    })
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// A token of RFC 9110.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c))
}

/// Percent-encoded octets; may be empty.
fn is_value(text: &str) -> bool {
    let visible = text.bytes().all(|c| (0x21..=0x7e).contains(&c) && !b"\",;\\".contains(&c));
    let hex = |c: Option<&u8>| c.is_some_and(u8::is_ascii_hexdigit);
    let bytes = text.as_bytes();
    visible && (0..bytes.len()).all(|i| bytes[i] != b'%' || hex(bytes.get(i + 1)) && hex(bytes.get(i + 2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_values_that_are_percent_encoded_and_may_have_properties() {
        assert_eq!(members("k=v"), Some(1));
        assert_eq!(members("key1=value1;property1;property2=x, key2 = value2, key3=a%20b=c"), Some(3));
        assert_eq!(members("empty="), Some(1));
        for bad in ["", "k", "=v", "k=v,", "k=a b", "k=a\"b", "k=%2", "k=%zz", "kö=v", "k=v;", "k=v;=1"] {
            assert_eq!(members(bad), None, "{bad}");
        }
    }
}
