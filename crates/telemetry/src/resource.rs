//! Who exports: the resource of all spans.

use crate::{Build, Variables};
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use pointsman_core::percent_decoded;

const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// The resource, and what of `OTEL_RESOURCE_ATTRIBUTES` is malformed, which is left out. `OTEL_SERVICE_NAME` has the last word about the name.
pub(crate) fn of(build: &Build, variables: Variables<'_>) -> (Resource, Vec<String>) {
    let mut malformed = Vec::new();
    let mut attributes = vec![
        KeyValue::new("service.name", build.service),
        KeyValue::new("service.version", build.version),
        KeyValue::new("telemetry.sdk.language", "rust"),
        KeyValue::new("telemetry.sdk.name", "opentelemetry"),
    ];
    let given = variables.get(ATTRIBUTES).unwrap_or_default();
    for pair in given.split(',').map(str::trim).filter(|p| !p.is_empty()) {
        let parsed = pair.split_once('=').and_then(|(k, v)| Some((k.trim().to_owned(), percent_decoded(v.trim())?)));
        match parsed.filter(|(key, _)| !key.is_empty()) {
            Some((key, value)) => attributes.push(KeyValue::new(key, value)),
            None => malformed.push(format!("{ATTRIBUTES}: {pair:?} is not key=value, and is left out")),
        }
    }
    if let Some(name) = variables.get("OTEL_SERVICE_NAME") {
        attributes.push(KeyValue::new("service.name", name));
    }
    // Of two values of one key, the later one counts.
    (Resource::builder_empty().with_attributes(attributes).build(), malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opentelemetry::{Key, Value};

    const BUILD: Build = Build { service: "llm-d-epp", version: "v1", commit: "" };

    #[test]
    fn the_variables_name_the_service_and_a_malformed_attribute_is_left_out() {
        let look_up = |name: &str| match name {
            ATTRIBUTES => Some("service.name=from-attributes, zone = a%20b ,broken,bad=%zz,=x".to_owned()),
            _ => None,
        };
        let (resource, malformed) = of(&BUILD, Variables::of(&look_up));
        let get = |key| resource.get(&Key::from_static_str(key));
        assert_eq!(get("service.name"), Some(Value::from("from-attributes")));
        assert_eq!(get("service.version"), Some(Value::from("v1")));
        assert_eq!(get("zone"), Some(Value::from("a b")));
        assert_eq!(malformed.len(), 3, "{malformed:?}");
        let named = |name: &str| (name == "OTEL_SERVICE_NAME").then(|| "mine".to_owned()).or_else(|| look_up(name));
        let (resource, _) = of(&BUILD, Variables::of(&named));
        assert_eq!(resource.get(&Key::from_static_str("service.name")), Some(Value::from("mine")));
        let (resource, _) = of(&BUILD, Variables::of(&|_| None));
        assert_eq!(resource.get(&Key::from_static_str("service.name")), Some(Value::from("llm-d-epp")));
    }
}
