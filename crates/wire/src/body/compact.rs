//! Writing JSON again from its events: without blanks, with one spelling per string, and where wanted with sorted keys.

use crate::json::{Container, plain_len};

/// Keeps the commas and colons of JSON that is written event by event.
#[derive(Debug, Default)]
pub(super) struct Compact {
    /// Something stands before what comes next in this container.
    follows: bool,
    /// A key was written, its value comes.
    keyed: bool,
}

impl Compact {
    fn separate(&mut self, out: &mut impl FnMut(&[u8])) {
        if self.keyed {
            self.keyed = false;
        } else if self.follows {
            out(b",");
        }
    }

    pub(super) fn open(&mut self, container: Container, mut out: impl FnMut(&[u8])) {
        self.separate(&mut out);
        self.follows = false;
        out(if container == Container::Object { b"{" } else { b"[" });
    }

    pub(super) fn close(&mut self, container: Container, mut out: impl FnMut(&[u8])) {
        self.follows = true;
        out(if container == Container::Object { b"}" } else { b"]" });
    }

    pub(super) fn string_start(&mut self, mut out: impl FnMut(&[u8])) {
        self.separate(&mut out);
        out(b"\"");
    }

    pub(super) fn string_end(&mut self, key: bool, mut out: impl FnMut(&[u8])) {
        self.keyed = key;
        self.follows = !key;
        out(if key { b"\":" } else { b"\"" });
    }

    pub(super) fn scalar(&mut self, text: &[u8], mut out: impl FnMut(&[u8])) {
        self.separate(&mut out);
        self.follows = true;
        out(text);
    }
}

/// Writes unescaped string bytes with the fewest escapes.
pub(super) fn escape(mut bytes: &[u8], mut out: impl FnMut(&[u8])) {
    loop {
        let (plain, rest) = bytes.split_at(plain_len(bytes));
        if !plain.is_empty() {
            out(plain);
        }
        let Some((&byte, rest)) = rest.split_first() else { return };
        match byte {
            b'"' => out(b"\\\""),
            b'\\' => out(b"\\\\"),
            b'\n' => out(b"\\n"),
            b'\r' => out(b"\\r"),
            b'\t' => out(b"\\t"),
            8 => out(b"\\b"),
            12 => out(b"\\f"),
            _ => {
                let digit = |d: u8| if d < 10 { b'0' + d } else { b'a' + d - 10 };
                out(&[b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 15)]);
            }
        }
        bytes = rest;
    }
}

/// The same JSON with the keys of every object sorted by their bytes; of equal keys the last stays. `compact` must be what
/// [`Compact`] wrote for one whole value.
pub(super) fn sort_keys(compact: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(compact.len());
    value(compact, 0, &mut out);
    out
}

/// Appends the value at `at`, sorted; returns where it ends. Its depth is bounded by the tokenizer's.
fn value(json: &[u8], mut at: usize, out: &mut Vec<u8>) -> usize {
    match json.get(at) {
        Some(b'{') => object(json, at, out),
        Some(b'[') => {
            out.push(b'[');
            at += 1;
            while at < json.len() && json[at] != b']' {
                if json[at] == b',' {
                    out.push(b',');
                    at += 1;
                }
                at = value(json, at, out);
            }
            out.push(b']');
            at + 1
        }
        Some(b'"') => {
            let end = string(json, at);
            out.extend_from_slice(&json[at..end]);
            end
        }
        _ => {
            let rest = &json[at.min(json.len())..];
            let len = rest.iter().position(|b| matches!(b, b',' | b']' | b'}')).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..len]);
            // Never stands still, whatever it is given.
            at + len.max(1)
        }
    }
}

fn object(json: &[u8], mut at: usize, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    // Key in `json`, whole member in `out`.
    let mut members = Vec::new();
    at += 1;
    while at < json.len() && json[at] != b'}' {
        at += usize::from(json[at] == b',');
        let member = out.len();
        let key = at;
        at = string(json, at);
        out.extend_from_slice(&json[key..at]);
        out.push(b':');
        let named = key..at;
        at = value(json, at + 1, out);
        members.push((named, member..out.len()));
    }
    let key = |m: &(std::ops::Range<usize>, _)| &json[m.0.clone()];
    members.sort_by(|a, b| key(a).cmp(key(b)));
    let mut sorted = Vec::with_capacity(out.len() - start + members.len() + 1);
    for (i, member) in members.iter().enumerate() {
        if members.get(i + 1).is_none_or(|next| key(next) != key(member)) {
            sorted.push(if sorted.is_empty() { b'{' } else { b',' });
            sorted.extend_from_slice(&out[member.1.clone()]);
        }
    }
    out.truncate(start);
    if sorted.is_empty() {
        out.push(b'{');
    }
    out.append(&mut sorted);
    out.push(b'}');
    at + 1
}

/// Where the string that begins at `at` ends.
fn string(json: &[u8], at: usize) -> usize {
    let mut i = at + 1;
    while let Some(&byte) = json.get(i) {
        match byte {
            b'"' => return i + 1,
            b'\\' => i += 2,
            _ => i += 1,
        }
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_at_every_level_and_the_last_of_equal_ones_stays() {
        for (json, want) in [
            (
                r#"[{"type":"function","function":{"name":"f","a":[1,{"z":1,"y":2}]}}]"#,
                r#"[{"function":{"a":[1,{"y":2,"z":1}],"name":"f"},"type":"function"}]"#,
            ),
            (r#"{"b":1,"a":2,"b":3}"#, r#"{"a":2,"b":3}"#),
            (r#"{"a":{},"b":[],"c":"}\",{"}"#, r#"{"a":{},"b":[],"c":"}\",{"}"#),
            (r#"{}"#, "{}"),
            ("1.5", "1.5"),
            (r#""s""#, r#""s""#),
        ] {
            assert_eq!(String::from_utf8(sort_keys(json.as_bytes())).expect("text"), want, "{json}");
        }
    }

    #[test]
    fn strings_are_escaped_in_one_way() {
        let mut out = Vec::new();
        escape(b"a\"\\\n\r\t\x08\x0c\x01\x1f/\xc3\xa9", |b| out.extend_from_slice(b));
        assert_eq!(out, b"a\\\"\\\\\\n\\r\\t\\b\\f\\u0001\\u001f/\xc3\xa9");
    }
}
