//! Decoding a `parameters` node by a type's rows; every fault is reported, none stops the rest.

use super::{Param, ParamKind, ParamValue, Params, Slot};
use crate::fault::{Code, Faults, did_you_mean, listed, nearest, quote};
use crate::read;
use crate::yaml::{self, Key, Node, Span};

/// Decodes `node` (absent and `null` alike mean no parameters). `span` places faults about what is missing, `path` is the path of the
/// node, such as `plugins[2].parameters`.
///
/// A key that differs from a known one in letter case only is taken with a warning, because Go's decoder takes it silently.
#[must_use]
pub fn decode(node: Option<&Node>, rows: &'static [Param], span: Span, path: &str, faults: &mut Faults) -> Params {
    let mut params = Params { rows, slots: Vec::with_capacity(rows.len()), span, path: path.to_owned(), sound: true };
    let before = faults.errors();
    let entries = match node {
        Some(n) if !n.is_null() => {
            params.span = n.span;
            n.entries().unwrap_or_else(|| {
                read::wrong_type(n, path, "a mapping", faults);
                &[]
            })
        }
        _ => &[],
    };
    let known: Vec<&str> = rows.iter().map(|r| r.name).collect();
    let mut given: Vec<Option<&(Key, Node)>> = vec![None; rows.len()];
    let mut meant: Vec<&str> = Vec::new();
    for entry in entries {
        let key = &entry.0;
        let exact = rows.iter().position(|r| r.name == key.text);
        let Some(row) = exact.or_else(|| rows.iter().position(|r| r.name.eq_ignore_ascii_case(&key.text))) else {
            meant.extend(read::unknown(
                Code::UnknownParameter,
                key,
                &params.path(read::short(&key.text)),
                &known,
                faults,
            ));
            continue;
        };
        if exact.is_none() {
            faults
                .warning(
                    Code::ParameterSpelling,
                    key.span,
                    params.path(&key.text),
                    format!("parameter {} is spelt `{}`", quote(&key.text), rows[row].name),
                )
                .label(format!("write `{}`", rows[row].name));
        }
        if given[row].is_some() {
            faults.error(
                Code::ParameterTwice,
                key.span,
                params.path(&key.text),
                format!("parameter `{}` is given twice", rows[row].name),
            );
            continue;
        }
        given[row] = Some(entry);
    }
    for (row, entry) in rows.iter().zip(given) {
        let path = params.path(row.name);
        let written = entry.filter(|(_, n)| !n.is_null());
        if let (Some((key, _)), Some(instead)) = (written, row.deprecated) {
            faults.warning(
                Code::DeprecatedParameter,
                key.span,
                path.clone(),
                format!("parameter `{}` is deprecated: {instead}", row.name),
            );
        }
        if let Some((_, node)) = written
            && let Some(value) = value(node, &row.kind, &path, faults)
        {
            params.slots.push(Slot { name: row.name, value, span: node.span, given: true });
            continue;
        }
        // Of one that is misspelt that is told already.
        if row.required && written.is_none() && !meant.contains(&row.name) {
            let at = entry.map_or(params.span, |(k, _)| k.span);
            faults
                .error(Code::MissingParameter, at, path.clone(), format!("parameter `{}` is required", row.name))
                .label(row.doc);
        }
        if let Some(json) = row.default {
            // Faults in a row's own default have no place in the user's file; a test over all rows looks for them.
            let ignored = &mut Faults::new();
            let node = yaml::parse(json, ignored).unwrap_or(Node { value: yaml::Value::Null, span: params.span });
            if let Some(value) = value(&node, &row.kind, &path, ignored) {
                params.slots.push(Slot {
                    name: row.name,
                    value: placed(value, params.span),
                    span: params.span,
                    given: false,
                });
            }
        }
    }
    params.sound = faults.errors() == before;
    params
}

/// What is wrong with the rows themselves: defaults that their own kind does not take, names given twice. Empty for good rows; every
/// registry's tests ask.
#[must_use]
pub fn faults_of_rows(rows: &'static [Param]) -> Vec<String> {
    let mut out = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        if rows[..i].iter().any(|r| r.name == row.name) {
            out.push(format!("{}: declared twice", row.name));
        }
        if row.doc.is_empty() {
            out.push(format!("{}: not documented", row.name));
        }
        if row.required && row.default.is_some() {
            out.push(format!("{}: required, yet has a default", row.name));
        }
        let mut faults = Faults::new();
        if let Some(json) = row.default {
            if serde_json::from_str::<serde_json::Value>(json).is_err() {
                out.push(format!("{}: default is not JSON", row.name));
            }
            if let Some(node) = yaml::parse(json, &mut faults) {
                let _ = value(&node, &row.kind, row.name, &mut faults);
            }
            out.extend(faults.iter().map(ToString::to_string));
        }
        let mut kind = &row.kind;
        while let ParamKind::List(inner) = kind {
            kind = inner;
        }
        if let ParamKind::Object(inner) = kind {
            out.extend(faults_of_rows(inner).into_iter().map(|f| format!("{}.{f}", row.name)));
        }
    }
    out
}

/// A default's nodes stand in no file; what reads their places later is sent to the parameters as a whole.
fn placed(value: ParamValue, span: Span) -> ParamValue {
    match value {
        ParamValue::Object(mut params) => {
            params.span = span;
            for slot in &mut params.slots {
                slot.span = span;
                slot.given = false;
                let inner = std::mem::replace(&mut slot.value, ParamValue::Bool(false));
                slot.value = placed(inner, span);
            }
            ParamValue::Object(params)
        }
        ParamValue::List(items) => ParamValue::List(items.into_iter().map(|v| placed(v, span)).collect()),
        ParamValue::Any(node) => ParamValue::Any(Node { span, ..node }),
        other => other,
    }
}

fn value(node: &Node, kind: &'static ParamKind, path: &str, faults: &mut Faults) -> Option<ParamValue> {
    match kind {
        ParamKind::Bool => read::boolean(node, path, faults).map(ParamValue::Bool),
        ParamKind::Integer { min, max } => {
            let i = read::integer(node, path, faults)?;
            let bounds = (min.map(|m| m as f64), max.map(|m| m as f64));
            let inside = min.is_none_or(|m| i >= m) && max.is_none_or(|m| i <= m);
            in_range(inside, bounds, node, path, faults).then_some(ParamValue::Integer(i))
        }
        ParamKind::Number { min, max } => {
            let x = read::number(node, path, faults)?;
            let inside = min.is_none_or(|m| x >= m) && max.is_none_or(|m| x <= m);
            in_range(inside, (*min, *max), node, path, faults).then_some(ParamValue::Number(x))
        }
        ParamKind::String => read::string(node, path, faults).map(|s| ParamValue::String(s.to_owned())),
        ParamKind::Enum(words) => {
            let text = read::string(node, path, faults)?;
            if let Some(word) = words.iter().find(|w| **w == text) {
                return Some(ParamValue::Enum(word));
            }
            let fault = faults.error(Code::UnknownWord, node.span, path, format!("`{path}` cannot be {}", quote(text)));
            match nearest(text, words.iter().copied()) {
                Some(near) => fault.label(did_you_mean(text, near)),
                None => fault.label(format!("one of: {}", listed(words.iter().copied()))),
            };
            None
        }
        ParamKind::Duration => read::duration(node, path, true, faults).map(ParamValue::Duration),
        ParamKind::Quantity => {
            let q = read::quantity(node, path, faults)?;
            in_range(q >= 0, (Some(0.0), None), node, path, faults).then(|| ParamValue::Quantity(q.unsigned_abs()))
        }
        ParamKind::List(kind) => {
            let Some(items) = node.items() else {
                read::wrong_type(node, path, "a list", faults);
                return None;
            };
            let decoded =
                items.iter().enumerate().filter_map(|(i, n)| value(n, kind, &format!("{path}[{i}]"), faults)).collect();
            Some(ParamValue::List(decoded))
        }
        ParamKind::Object(rows) => {
            if node.entries().is_none() {
                read::wrong_type(node, path, "a mapping", faults);
                return None;
            }
            Some(ParamValue::Object(decode(Some(node), rows, node.span, path, faults)))
        }
        ParamKind::AnyMap => {
            let Some(entries) = node.entries() else {
                read::wrong_type(node, path, "a mapping", faults);
                return None;
            };
            let text = |(k, v): &(Key, Node)| {
                let value = read::string(v, &format!("{path}.{}", k.text), faults)?;
                Some((k.text.clone(), value.to_owned()))
            };
            Some(ParamValue::Map(entries.iter().filter_map(text).collect()))
        }
        ParamKind::Any => Some(ParamValue::Any(node.clone())),
    }
}

fn in_range(inside: bool, bounds: (Option<f64>, Option<f64>), node: &Node, path: &str, faults: &mut Faults) -> bool {
    if !inside {
        let range = match bounds {
            (Some(min), Some(max)) => format!("from {min} to {max}"),
            (Some(min), None) => format!("{min} or more"),
            (None, Some(max)) => format!("{max} or less"),
            (None, None) => String::new(),
        };
        faults.error(Code::OutOfRange, node.span, path, format!("`{path}` must be {range}")).label("out of range");
    }
    inside
}
