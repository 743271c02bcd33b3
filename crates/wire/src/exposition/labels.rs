//! The labels of one series, read where they lie.

use std::borrow::Cow;

/// Labels of a series. Names and values are borrowed from the page; a value with escapes is unescaped when asked for.
#[derive(Clone, Copy, Default)]
pub struct Labels<'p> {
    /// What stands between the braces, already found to be well-formed.
    text: &'p [u8],
}

impl<'p> Labels<'p> {
    /// Reads labels from behind their `{`; returns them and what stands behind their `}`.
    pub(super) fn parse(text: &'p [u8]) -> Option<(Self, &'p [u8])> {
        let mut rest = trim(text);
        loop {
            if let Some(after) = rest.strip_prefix(b"}") {
                return Some((Self { text: &text[..text.len() - after.len() - 1] }, after));
            }
            let (_, _, after) = pair(rest)?;
            rest = match after.first()? {
                b',' => trim(&after[1..]),
                b'}' => after,
                _ => return None,
            };
        }
    }

    /// All labels as name and value, in the order of the page. Bytes that are not UTF-8 are replaced.
    pub fn iter(&self) -> impl Iterator<Item = (Cow<'p, str>, Cow<'p, str>)> + use<'p> {
        self.raw().map(|(name, value)| (String::from_utf8_lossy(name), unescape(value)))
    }

    /// The value of a label.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Cow<'p, str>> {
        self.raw().find(|(n, _)| *n == name.as_bytes()).map(|(_, value)| unescape(value))
    }

    /// Whether a label is there with this value.
    pub(super) fn has(&self, name: &str, want: &str) -> bool {
        self.raw().any(|(n, value)| {
            n == name.as_bytes() && (value == want.as_bytes() && !value.contains(&b'\\') || unescape(value) == want)
        })
    }

    fn raw(&self) -> impl Iterator<Item = (&'p [u8], &'p [u8])> + use<'p> {
        let mut rest = trim(self.text);
        std::iter::from_fn(move || {
            let (name, value, after) = pair(rest)?;
            rest = trim(after.strip_prefix(b",").unwrap_or(after));
            Some((name, value))
        })
    }
}

impl std::fmt::Debug for Labels<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// One `name="value"`, blanks around its parts allowed: name, value as written, rest.
fn pair(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let len = text.iter().position(|b| matches!(b, b'=' | b' ' | b'\t' | b'"' | b',' | b'{' | b'}'))?;
    let (name, rest) = text.split_at(len);
    if name.is_empty() {
        return None;
    }
    let value = trim(trim(rest).strip_prefix(b"=")?).strip_prefix(b"\"")?;
    let mut from = 0;
    loop {
        let quote = from + memchr::memchr2(b'"', b'\\', &value[from..])?;
        if value[quote] == b'"' {
            return Some((name, &value[..quote], trim(&value[quote + 1..])));
        }
        from = quote + 2;
        if from > value.len() {
            return None;
        }
    }
}

pub(super) fn trim(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    &text[blanks..]
}

/// `\\`, `\"` and `\n` mean what they do everywhere; another escape stands for itself.
fn unescape(value: &[u8]) -> Cow<'_, str> {
    if !value.contains(&b'\\') {
        return String::from_utf8_lossy(value);
    }
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&byte, after)) = rest.split_first() {
        let (meant, len) = match (byte, after.first()) {
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(&next @ (b'\\' | b'"'))) => (next, 2),
            _ => (byte, 1),
        };
        out.push(meant);
        rest = &rest[len..];
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}
