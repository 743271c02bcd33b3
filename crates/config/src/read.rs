//! Strict reading of a mapping: every field has a name that is known and a value of its type, or there is a fault at its place.

use std::time::Duration;

use crate::document::Reference;
use crate::fault::{Code, Faults, did_you_mean, listed, nearest, quote};
use crate::units::{Quantity, parse_duration};
use crate::yaml::{self, Key, Node, Span, Value, yaml11_bool};

/// The fields of one mapping. A `null` value reads as absent.
pub(crate) struct Fields<'n> {
    entries: &'n [(Key, Node)],
    path: String,
}

impl<'n> Fields<'n> {
    /// Reads `node` as a mapping that may have the `known` keys. Unknown ones are errors.
    pub(crate) fn of(node: &'n Node, path: &str, known: &[&str], faults: &mut Faults) -> Option<Self> {
        let Some(entries) = node.entries() else {
            wrong_type(node, path, "a mapping", faults);
            return None;
        };
        let fields = Self { entries, path: path.to_owned() };
        for (key, _) in entries {
            if !known.contains(&key.text.as_str()) {
                unknown(Code::UnknownField, key, &fields.path_of(&key.text), known, faults);
            }
        }
        Some(fields)
    }

    /// Path of a field.
    pub(crate) fn path_of(&self, name: &str) -> String {
        let name = short(name);
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// The value of a field and its path.
    pub(crate) fn node(&self, name: &str) -> Option<(&'n Node, String)> {
        let (_, node) = self.entries.iter().find(|(k, _)| k.text == name)?;
        (!node.is_null()).then(|| (node, self.path_of(name)))
    }

    /// Where the key of a field stands.
    pub(crate) fn key_span(&self, name: &str) -> Option<Span> {
        self.entries.iter().find(|(k, _)| k.text == name).map(|(k, _)| k.span)
    }

    /// Text with its place.
    pub(crate) fn string(&self, name: &str, faults: &mut Faults) -> Option<(&'n str, Span)> {
        let (node, path) = self.node(name)?;
        string(node, &path, faults).map(|s| (s, node.span))
    }

    /// True or false.
    pub(crate) fn bool(&self, name: &str, faults: &mut Faults) -> Option<bool> {
        let (node, path) = self.node(name)?;
        boolean(node, &path, faults)
    }

    /// A whole number.
    pub(crate) fn integer(&self, name: &str, faults: &mut Faults) -> Option<i64> {
        let (node, path) = self.node(name)?;
        integer(node, &path, faults)
    }

    /// A quantity. A negative one is an error or, where `severe` is false, a warning; either way it reads as absent.
    pub(crate) fn quantity(&self, name: &str, severe: bool, faults: &mut Faults) -> Option<u64> {
        let (node, path) = self.node(name)?;
        let q = quantity(node, &path, faults)?;
        u64::try_from(q)
            .map_err(|_| {
                faults
                    .report(severe, Code::Negative, node.span, path, format!("`{name}` must be 0 or more, not {q}"))
                    .label("negative")
            })
            .ok()
    }

    /// A duration, with negative ones as for quantities.
    pub(crate) fn duration(&self, name: &str, severe: bool, faults: &mut Faults) -> Option<Duration> {
        let (node, path) = self.node(name)?;
        duration(node, &path, severe, faults)
    }

    /// Items of a list with their paths; none when the field is absent or not a list.
    pub(crate) fn list(&self, name: &str, faults: &mut Faults) -> Vec<(&'n Node, String)> {
        let Some((node, path)) = self.node(name) else { return Vec::new() };
        match node.items() {
            Some(items) => items.iter().enumerate().map(|(i, n)| (n, format!("{path}[{i}]"))).collect(),
            None => {
                wrong_type(node, &path, "a list", faults);
                Vec::new()
            }
        }
    }

    /// An optional name of a plugin instance; empty reads as absent.
    pub(crate) fn reference(&self, name: &str, faults: &mut Faults) -> Option<Reference> {
        let (text, span) = self.string(name, faults)?;
        (!text.is_empty()).then(|| Reference { name: text.to_owned(), span, path: self.path_of(name) })
    }

    /// `pluginRef`, which must be there. `whole` is the place of the mapping.
    pub(crate) fn plugin_ref(&self, whole: Span, faults: &mut Faults) -> Option<Reference> {
        let found = self.reference("pluginRef", faults);
        let wrong_type = self.node("pluginRef").is_some_and(|(n, _)| n.as_str().is_none_or(|s| !s.is_empty()));
        if found.is_none() && !wrong_type {
            let at = self.key_span("pluginRef").unwrap_or(whole);
            faults
                .error(
                    Code::MissingPluginRef,
                    at,
                    self.path_of("pluginRef"),
                    format!("{} is missing a `pluginRef`", self.path),
                )
                .label("name a plugin here: `pluginRef: ...`");
        }
        found
    }

    /// A field that holds `{pluginRef: name}`.
    pub(crate) fn wrapped_reference(&self, name: &str, faults: &mut Faults) -> Option<Reference> {
        let (node, path) = self.node(name)?;
        Fields::of(node, &path, &["pluginRef"], faults)?.plugin_ref(node.span, faults)
    }
}

/// A key as part of a path.
pub(crate) fn short(key: &str) -> &str {
    if key.len() > 80 { "..." } else { key }
}

/// Reports a key that is not known. Returns the known one that was likely meant.
pub(crate) fn unknown<'k>(
    code: Code,
    key: &Key,
    path: &str,
    known: &[&'k str],
    faults: &mut Faults,
) -> Option<&'k str> {
    let what = if code == Code::UnknownParameter { "unknown parameter" } else { "unknown field" };
    // Comparing names takes time; what would not be shown needs no advice.
    let near = if faults.is_full() { None } else { nearest(&key.text, known.iter().copied()) };
    let fault = faults.error(code, key.span, path, format!("{what} {}", quote(&key.text)));
    let glued = key.text.split_once(':').map(|(name, _)| name).filter(|name| known.contains(name));
    match near {
        _ if glued.is_some() => fault.label("write a space after the colon"),
        Some(near) => fault.label(did_you_mean(&key.text, near)),
        None => fault.label(format!("known are: {}", listed(known.iter().copied()))),
    };
    near
}

/// Reports a value of the wrong type.
pub(crate) fn wrong_type(node: &Node, path: &str, wanted: &str, faults: &mut Faults) {
    let what = if path.is_empty() { "the document".to_owned() } else { format!("`{path}`") };
    // `"3"` where a number is wanted: the quotes are the fault.
    let quoted = match &node.value {
        Value::String { text, plain: false } => {
            matches!(yaml::plain(text), Value::Bool(_) | Value::Int(_) | Value::Float(_))
        }
        _ => false,
    };
    let label = if quoted && !wanted.ends_with("mapping") && !wanted.ends_with("list") {
        "remove the quotes".to_owned()
    } else {
        format!("{wanted} is wanted")
    };
    faults
        .error(Code::WrongType, node.span, path, format!("{what} must be {wanted}, not {}", node.describe()))
        .label(label);
}

/// Text. What YAML reads as something else (a number, a boolean) must be quoted.
pub(crate) fn string<'n>(node: &'n Node, path: &str, faults: &mut Faults) -> Option<&'n str> {
    match &node.value {
        Value::String { text, plain } if !(*plain && yaml11_bool(text).is_some()) => Some(text),
        Value::Sequence(_) | Value::Mapping(_) => {
            wrong_type(node, path, "a string", faults);
            None
        }
        _ => {
            faults
                .error(Code::WrongType, node.span, path, format!("`{path}` must be a string, not {}", node.describe()))
                .label("put it in quotes");
            None
        }
    }
}

/// True or false, unquoted; the words of YAML 1.1 are taken too.
pub(crate) fn boolean(node: &Node, path: &str, faults: &mut Faults) -> Option<bool> {
    match &node.value {
        Value::Bool(b) => Some(*b),
        Value::String { text, plain: true } if yaml11_bool(text).is_some() => yaml11_bool(text),
        _ => {
            wrong_type(node, path, "`true` or `false`", faults);
            None
        }
    }
}

/// A whole number; `5.0` is one.
pub(crate) fn integer(node: &Node, path: &str, faults: &mut Faults) -> Option<i64> {
    match node.value {
        Value::Int(i) => Some(i),
        Value::Float(f) if f.fract() == 0.0 && f.abs() <= 9_007_199_254_740_992.0 => Some(f as i64),
        _ => {
            wrong_type(node, path, "a whole number", faults);
            None
        }
    }
}

/// A finite number.
pub(crate) fn number(node: &Node, path: &str, faults: &mut Faults) -> Option<f64> {
    match node.value {
        Value::Int(i) => Some(i as f64),
        Value::Float(f) if f.is_finite() => Some(f),
        Value::Float(_) => {
            faults
                .error(Code::NotFinite, node.span, path, format!("`{path}` must be a finite number"))
                .label("not finite");
            None
        }
        _ => {
            wrong_type(node, path, "a number", faults);
            None
        }
    }
}

/// A Kubernetes quantity, as text or number, rounded up to a whole one.
pub(crate) fn quantity(node: &Node, path: &str, faults: &mut Faults) -> Option<i64> {
    let parsed = match &node.value {
        Value::Int(i) => return Some(*i),
        Value::Float(f) => format!("{f}").parse::<Quantity>(),
        Value::String { text, .. } => text.parse::<Quantity>(),
        _ => {
            wrong_type(node, path, "a quantity", faults);
            return None;
        }
    };
    match parsed {
        Ok(q) => Some(q.value()),
        Err(e) => {
            faults
                .error(Code::BadQuantity, node.span, path, format!("`{path}` is not a quantity"))
                .label(e.to_string());
            None
        }
    }
}

/// A Go duration, always text. A negative one is an error or, where `severe` is false, a warning.
pub(crate) fn duration(node: &Node, path: &str, severe: bool, faults: &mut Faults) -> Option<Duration> {
    let text = match &node.value {
        Value::String { text, .. } => text,
        Value::Int(_) | Value::Float(_) => {
            faults
                .error(
                    Code::DurationWithoutUnit,
                    node.span,
                    path,
                    format!("`{path}` must be a duration with a unit, not a bare number"),
                )
                .label("write for example `30s`, `250ms` or `1m30s`");
            return None;
        }
        _ => {
            wrong_type(node, path, "a duration such as `30s`", faults);
            return None;
        }
    };
    match parse_duration(text) {
        Ok(nanos) => match u64::try_from(nanos) {
            Ok(nanos) => Some(Duration::from_nanos(nanos)),
            Err(_) => {
                faults
                    .report(
                        severe,
                        Code::Negative,
                        node.span,
                        path,
                        format!("`{path}` cannot be negative, but is {}", quote(text)),
                    )
                    .label("negative");
                None
            }
        },
        Err(e) => {
            faults
                .error(Code::BadDuration, node.span, path, format!("`{path}` is not a duration"))
                .label(e.to_string());
            None
        }
    }
}
