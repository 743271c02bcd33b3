//! A row as JSON, for machines.

use pointsman_config::{Param, ParamKind};
use pointsman_plugins::row::{Need, Row};
use serde_json::{Value, json};

/// Everything there is to say about a type.
pub(super) fn row(row: &Row) -> Value {
    json!({
        "type": row.type_name,
        "status": super::status(row),
        "stability": super::stability(row),
        "kinds": row.kinds.iter().map(|k| k.as_str()).collect::<Vec<_>>(),
        "summary": row.doc,
        "formula": Some(row.formula).filter(|f| !f.is_empty()),
        "deprecated": row.deprecated,
        "parameters": row.params.iter().map(param).collect::<Vec<_>>(),
        "consumes": row.needs.iter().map(need).collect::<Vec<_>>(),
        "produces": row.makes.iter().map(|k| k.as_str()).collect::<Vec<_>>(),
        "createdWhenNeeded": row.default_producer,
        "example": row.build.is_some().then(|| super::example(row)),
    })
}

fn need(need: &Need) -> Value {
    json!({"data": need.kind.as_str(), "required": need.required, "producerParameter": need.producer_param})
}

fn param(p: &Param) -> Value {
    let mut out = json!({
        "name": p.name,
        "type": word(&p.kind),
        "required": p.required,
        "default": p.default.and_then(|d| serde_json::from_str::<Value>(d).ok()),
        "description": p.doc,
        "deprecated": p.deprecated,
    });
    describe(&p.kind, &mut out);
    out
}

fn describe(kind: &ParamKind, out: &mut Value) {
    match kind {
        ParamKind::Integer { min, max } => {
            out["min"] = json!(min);
            out["max"] = json!(max);
        }
        ParamKind::Number { min, max } => {
            out["min"] = json!(min);
            out["max"] = json!(max);
        }
        ParamKind::Enum(words) => out["values"] = json!(words),
        ParamKind::List(of) => {
            let mut item = json!({"type": word(of)});
            describe(of, &mut item);
            out["items"] = item;
        }
        ParamKind::Object(params) => out["parameters"] = params.iter().map(param).collect(),
        _ => {}
    }
}

/// What a parameter takes, in a word.
pub(super) fn word(kind: &ParamKind) -> &'static str {
    match kind {
        ParamKind::Bool => "boolean",
        ParamKind::Integer { .. } => "integer",
        ParamKind::Number { .. } => "number",
        ParamKind::String => "string",
        ParamKind::Enum(_) => "word",
        ParamKind::Duration => "duration",
        ParamKind::Quantity => "quantity",
        ParamKind::List(_) => "list",
        ParamKind::Object(_) => "object",
        ParamKind::AnyMap => "map",
        ParamKind::Any => "any",
    }
}

/// What a parameter takes, with its range.
pub(super) fn range(kind: &ParamKind) -> String {
    fn bounds<T: std::fmt::Display>(word: &str, min: Option<T>, max: Option<T>) -> String {
        match (min, max) {
            (Some(min), Some(max)) => format!("{word} from {min} to {max}"),
            (Some(min), None) => format!("{word}, at least {min}"),
            (None, Some(max)) => format!("{word}, at most {max}"),
            (None, None) => word.to_owned(),
        }
    }
    match kind {
        ParamKind::Integer { min, max } => bounds("integer", *min, *max),
        ParamKind::Number { min, max } => bounds("number", *min, *max),
        ParamKind::Enum(words) => words.join(", "),
        ParamKind::List(of) => format!("list of {}", range(of)),
        _ => word(kind).to_owned(),
    }
}

/// Parameters with those inside of objects and lists, each with its path such as `conditions[].metric`.
pub(super) fn paths(params: &'static [Param]) -> Vec<(String, &'static Param)> {
    fn walk(prefix: &str, params: &'static [Param], out: &mut Vec<(String, &'static Param)>) {
        for p in params {
            let path = format!("{prefix}{}", p.name);
            out.push((path.clone(), p));
            match p.kind {
                ParamKind::Object(inner) => walk(&format!("{path}."), inner, out),
                ParamKind::List(ParamKind::Object(inner)) => walk(&format!("{path}[]."), inner, out),
                _ => {}
            }
        }
    }
    let mut out = Vec::new();
    walk("", params, &mut out);
    out
}
