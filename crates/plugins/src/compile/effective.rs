//! The document as it is in force, with what nobody wrote marked.

use super::declare::Declared;
use pointsman_config::{ParamValue, Params};
use pointsman_core::xxh64;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// The effective document. `defaulted` names what was not written; `injected` marks entries that nobody declared.
pub(super) fn document(d: &Declared) -> Value {
    let plugins: Vec<Value> = d
        .decls
        .iter()
        .map(|decl| {
            let mut not_written = Vec::new();
            defaulted(&decl.params, "", &mut not_written);
            json!({
                "name": &*decl.name,
                "type": decl.row.type_name,
                "injected": decl.injected,
                "parameters": object(&decl.params),
                "defaulted": not_written,
            })
        })
        .collect();
    let profiles: Vec<Value> = d
        .profiles
        .iter()
        .map(|plan| {
            let members: Vec<Value> = plan
                .members
                .iter()
                .map(|m| {
                    let decl = &d.decls[m.decl];
                    let mut member = json!({"pluginRef": &*decl.name, "injected": m.injected});
                    if decl.is(pointsman_config::Kind::Scorer) {
                        member["weight"] = json!(m.weight);
                        member["defaulted"] = json!(if m.weight_given { &[][..] } else { &["weight"][..] });
                    }
                    member
                })
                .collect();
            json!({"name": &*plan.name, "injected": plan.injected, "plugins": members})
        })
        .collect();
    let name = |i: &usize| d.decls[*i].name.to_string();
    let sources: Vec<Value> = d
        .sources
        .iter()
        .map(|s| {
            let extractors: Vec<Value> = s.extractors.iter().map(|(e, _)| json!({"pluginRef": name(e)})).collect();
            json!({"pluginRef": name(&s.decl), "extractors": extractors})
        })
        .collect();
    let mut data_layer = json!({"injectDefaults": d.document.data_layer.inject_defaults, "sources": sources});
    if let Some(discovery) = &d.discovery {
        data_layer["discovery"] = json!({"pluginRef": name(discovery)});
    }
    json!({
        "apiVersion": "llm-d.ai/v1alpha1",
        "kind": "EndpointPickerConfig",
        "builtIn": d.built_in,
        "plugins": plugins,
        "schedulingProfiles": profiles,
        "profileHandler": d.handler.as_ref().map(name),
        "dataLayer": data_layer,
        "requestHandler": {"parsers": d.parsers.iter().map(|p| json!({"pluginRef": name(p)})).collect::<Vec<_>>()},
    })
}

/// Names of what nobody wrote; inside of an object that somebody began, paths such as `estimate.image.mode`.
fn defaulted(params: &Params, prefix: &str, out: &mut Vec<String>) {
    for (name, value, given) in params.iter() {
        match value {
            ParamValue::Object(inner) if given => defaulted(inner, &format!("{prefix}{name}."), out),
            _ if !given && params.is_deprecated(name) => {}
            _ if !given => out.push(format!("{prefix}{name}")),
            _ => {}
        }
    }
}

fn object(params: &Params) -> Value {
    let shown = |name: &str, v: &ParamValue| if params.is_secret(name) { json!("(secret)") } else { value(v) };
    // What nobody should write any more is shown where somebody wrote it.
    let current = params.iter().filter(|(name, _, given)| *given || !params.is_deprecated(name));
    Value::Object(current.map(|(name, v, _)| (name.to_owned(), shown(name, v))).collect::<Map<_, _>>())
}

/// A hash of all that is not shown: two documents that look the same are the same when this is, too.
pub(super) fn secrets(d: &Declared) -> u64 {
    fn collect(params: &Params, out: &mut String) {
        for (name, value, _) in params.iter() {
            match value {
                ParamValue::String(secret) if params.is_secret(name) && !secret.is_empty() => {
                    let _ = write!(out, "{name}={}:{secret};", secret.len());
                }
                ParamValue::Object(inner) => collect(inner, out),
                _ => {}
            }
        }
    }
    let mut all = String::new();
    for decl in &d.decls {
        let mut own = String::new();
        collect(&decl.params, &mut own);
        if !own.is_empty() {
            let _ = write!(all, "{}:{own}", decl.name);
        }
    }
    xxh64(all.as_bytes())
}

fn value(v: &ParamValue) -> Value {
    match v {
        ParamValue::Bool(b) => json!(b),
        ParamValue::Integer(i) => json!(i),
        ParamValue::Number(x) => json!(x),
        ParamValue::String(s) => json!(s),
        ParamValue::Enum(s) => json!(s),
        ParamValue::Duration(d) => json!(match d.subsec_nanos() {
            n if n % 1_000_000 == 0 => format!("{}ms", d.as_millis()),
            n if n % 1_000 == 0 => format!("{}us", d.as_micros()),
            _ => format!("{}ns", d.as_nanos()),
        }),
        ParamValue::Quantity(q) => json!(q),
        ParamValue::List(items) => items.iter().map(value).collect(),
        ParamValue::Object(p) => object(p),
        ParamValue::Map(m) => json!(m),
        ParamValue::Any(node) => node.to_json(),
    }
}
