//! The configuration in force, as a document that could be used as it stands: what nobody wrote is marked in comments.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// YAML with comments, from what `/api/config` gives as `config`.
pub(crate) fn document(effective: &Value) -> String {
    let mut out = String::new();
    if effective["builtIn"] == true {
        out.push_str("# the built-in default\n");
    }
    for key in ["apiVersion", "kind"] {
        let _ = writeln!(out, "{key}: {}", scalar(&effective[key]));
    }
    if let Some(handler) = effective["profileHandler"].as_str() {
        let _ = writeln!(out, "# profiles are run by {handler}");
    }
    out.push_str("plugins:\n");
    for plugin in list(&effective["plugins"]) {
        let note = if plugin["injected"] == true { "  # default" } else { "" };
        let _ = writeln!(out, "- name: {}{note}\n  type: {}", scalar(&plugin["name"]), scalar(&plugin["type"]));
        let parameters = plugin["parameters"].as_object().filter(|p| !p.is_empty());
        if let Some(parameters) = parameters {
            out.push_str("  parameters:\n");
            written(&mut out, parameters, &plugin["defaulted"], "    ");
        }
    }
    out.push_str("schedulingProfiles:\n");
    for profile in list(&effective["schedulingProfiles"]) {
        let note = if profile["injected"] == true { "  # default" } else { "" };
        let _ = writeln!(out, "- name: {}{note}\n  plugins:", scalar(&profile["name"]));
        for member in list(&profile["plugins"]) {
            let note = if member["injected"] == true { "  # default" } else { "" };
            let _ = writeln!(out, "  - pluginRef: {}{note}", scalar(&member["pluginRef"]));
            if member["weight"].is_number() {
                let _ =
                    writeln!(out, "    weight: {}{}", scalar(&member["weight"]), mark(&member["defaulted"], "weight"));
            }
        }
    }
    for key in ["dataLayer", "requestHandler"] {
        if let Some(object) = effective[key].as_object() {
            let _ = writeln!(out, "{key}:");
            written(&mut out, object, &Value::Null, "  ");
        }
    }
    out
}

fn written(out: &mut String, object: &Map<String, Value>, defaulted: &Value, indent: &str) {
    for (key, value) in object {
        let _ = writeln!(out, "{indent}{key}: {}{}", flow(value), mark(defaulted, key));
    }
}

fn mark(defaulted: &Value, key: &str) -> &'static str {
    if list(defaulted).iter().any(|d| d == key) { "  # default" } else { "" }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// JSON is YAML; lists and objects stay on their line.
fn flow(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(k, v)| format!("{}: {}", scalar(&k.as_str().into()), flow(v))).collect();
            format!("{{{}}}", fields.join(", "))
        }
        value => scalar(value),
    }
}

/// Plain where that is safe, else as JSON writes it.
fn scalar(value: &Value) -> String {
    match value.as_str() {
        Some(text) if is_plain(text) => text.to_owned(),
        _ => value.to_string(),
    }
}

fn is_plain(text: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
    let reserved = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(word)
        && !reserved.contains(&text.to_ascii_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::checked;
    use pointsman_plugins::DefaultProfile;
    use std::sync::Arc;

    #[test]
    fn what_is_shown_is_a_configuration_with_the_same_effect() {
        for default in [DefaultProfile::Serve, DefaultProfile::Epp] {
            let (first, faults) = checked(b"", false, default, Arc::default());
            let first = first.unwrap_or_else(|| panic!("{}", faults.summary()));
            let text = document(&first.effective);
            assert!(text.contains("# the built-in default") && text.contains("# default"), "{text}");
            let (again, faults) = checked(text.as_bytes(), true, default, Arc::default());
            let again = again.unwrap_or_else(|| panic!("{}", pointsman_config::render("shown", &text, &faults, false)));
            let weights = |c: &pointsman_plugins::Compiled| {
                let profiles = &c.scheduler.profiles;
                profiles
                    .iter()
                    .flat_map(|p| p.scorers.iter().map(|s| (s.scorer.name.to_string(), s.weight)))
                    .collect::<Vec<_>>()
            };
            assert_eq!(weights(&first), weights(&again));
        }
    }

    #[test]
    fn text_that_yaml_would_misread_is_quoted() {
        for (text, want) in [
            ("queue-scorer", "queue-scorer"),
            ("yes", "\"yes\""),
            ("50ms", "\"50ms\""),
            ("a: b", "\"a: b\""),
            ("", "\"\""),
        ] {
            assert_eq!(scalar(&text.into()), want);
        }
    }
}
