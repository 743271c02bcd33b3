//! Selectors of series: `name` or `name{label=value,other="value"}`.

use super::labels::{Labels, trim};

/// A selector: a metric name and labels that must have given values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    name: String,
    labels: Vec<(String, String)>,
}

/// Why a selector is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The metric's name is not `[a-zA-Z_:][a-zA-Z0-9_:]*`.
    #[error("metric selector `{0}`: the name must consist of letters, digits, `_` and `:` and not begin with a digit")]
    Name(String),
    /// The braces are not closed, or something follows them.
    #[error("metric selector `{0}`: labels must stand in braces at the end, as in `name{{label=value}}`")]
    Braces(String),
    /// A label is not `name=value` with a valid name.
    #[error("metric selector `{0}`: every label must read `name=value`, its name of letters, digits and `_`")]
    Label(String),
}

impl Spec {
    /// Reads a selector. `None` when it is empty or blank, which switches its field off.
    ///
    /// # Errors
    /// The text is no selector.
    pub fn parse(text: &str) -> Result<Option<Self>, SpecError> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(None);
        }
        let (name, labels) = match text.split_once('{') {
            None => (text, None),
            Some((name, rest)) => (name.trim_end(), Some(rest)),
        };
        if !is_name(name, true) {
            return Err(SpecError::Name(text.into()));
        }
        let mut spec = Self { name: name.into(), labels: Vec::new() };
        let Some(mut rest) = labels else { return Ok(Some(spec)) };
        loop {
            rest = rest.trim_start();
            if rest == "}" {
                return Ok(Some(spec));
            }
            if rest.is_empty() || rest.starts_with('}') {
                return Err(SpecError::Braces(text.into()));
            }
            let bad = || SpecError::Label(text.into());
            let (label, after) = rest.split_once('=').ok_or_else(bad)?;
            let label = label.trim();
            if !is_name(label, false) {
                return Err(bad());
            }
            let after = after.trim_start();
            let (value, after) = match after.strip_prefix('"') {
                Some(quoted) => {
                    let (value, after) = quoted.split_once('"').ok_or_else(bad)?;
                    (value, after.trim_start())
                }
                None => {
                    let end = after.find([',', '}']).ok_or_else(|| SpecError::Braces(text.into()))?;
                    (after[..end].trim_end(), &after[end..])
                }
            };
            spec.labels.push((label.into(), value.into()));
            rest = match after.strip_prefix(',') {
                Some(more) => more,
                None if after.starts_with('}') => after,
                None if after.is_empty() => return Err(SpecError::Braces(text.into())),
                None => return Err(bad()),
            };
        }
    }

    /// The metric's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The labels it asks for.
    #[must_use]
    pub fn labels(&self) -> &[(String, String)] {
        &self.labels
    }

    pub(super) fn matches(&self, labels: &Labels<'_>) -> bool {
        self.labels.iter().all(|(name, value)| labels.has(name, value))
    }
}

impl std::fmt::Display for Spec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)?;
        for (i, (name, value)) in self.labels.iter().enumerate() {
            write!(f, "{}{name}=\"{value}\"", if i == 0 { "{" } else { "," })?;
        }
        f.write_str(if self.labels.is_empty() { "" } else { "}" })
    }
}

fn is_name(name: &str, colons: bool) -> bool {
    let ok = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || colons && b == b':';
    name.bytes().all(ok) && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

/// Selectors compiled for scanning.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    specs: Vec<Spec>,
    /// What all names begin with.
    prefix: Vec<u8>,
    /// Distinct names without the prefix.
    names: Vec<Vec<u8>>,
    /// Bytes that one of them begins with.
    begins: Begins,
}

#[derive(Clone, Debug)]
struct Begins([bool; 256]);

impl Default for Begins {
    fn default() -> Self {
        Self([false; 256])
    }
}

/// Index into the names of a [`Wanted`].
#[derive(Clone, Copy)]
pub(super) struct Name(usize);

impl Wanted {
    /// Compiles selectors; the order given is that of [`Sample::index`](super::Sample::index).
    pub fn new(specs: impl IntoIterator<Item = Spec>) -> Self {
        let specs: Vec<Spec> = specs.into_iter().collect();
        let mut names: Vec<Vec<u8>> = specs.iter().map(|s| s.name.clone().into_bytes()).collect();
        names.sort_unstable();
        names.dedup();
        let prefix = match (names.first(), names.last()) {
            (Some(a), Some(b)) => a.iter().zip(b).take_while(|(a, b)| a == b).map(|(a, _)| *a).collect(),
            _ => Vec::new(),
        };
        let mut begins = Begins::default();
        for name in &mut names {
            name.drain(..prefix.len());
            match name.first() {
                Some(&b) => begins.0[usize::from(b)] = true,
                // A name that is the prefix itself ends with any of these.
                None => b"{ \t".iter().for_each(|&b| begins.0[usize::from(b)] = true),
            }
        }
        Self { specs, prefix, names, begins }
    }

    /// The selectors, in their order.
    #[must_use]
    pub fn specs(&self) -> &[Spec] {
        &self.specs
    }

    /// Which wanted name the line begins with, and what stands behind it.
    #[inline]
    pub(super) fn candidate<'p>(&self, line: &'p [u8]) -> Option<(Name, &'p [u8])> {
        let line = if matches!(line.first()?, b' ' | b'\t') { trim(line) } else { line };
        let rest = line.strip_prefix(self.prefix.as_slice())?;
        if !self.begins.0[usize::from(*rest.first()?)] {
            return None;
        }
        self.names.iter().enumerate().find_map(|(i, name)| {
            let after = rest.strip_prefix(name.as_slice())?;
            matches!(after.first()?, b'{' | b' ' | b'\t').then_some((Name(i), after))
        })
    }

    /// The selectors with this name.
    pub(super) fn named(&self, name: Name) -> impl Iterator<Item = (usize, &Spec)> {
        let tail = self.names[name.0].as_slice();
        let prefix = self.prefix.len();
        self.specs.iter().enumerate().filter(move |(_, s)| &s.name.as_bytes()[prefix..] == tail)
    }
}
