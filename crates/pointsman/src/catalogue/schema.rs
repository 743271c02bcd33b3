//! JSON Schema (draft 2020-12) of a whole document, for editors.

use pointsman_config::{Param, ParamKind};
use pointsman_plugins::row::Row;
use pointsman_plugins::table::TABLE;
use serde_json::{Map, Value, json};

/// The schema.
pub(super) fn document() -> Value {
    let reference = json!({"type": "string", "description": "Name of a plugin instance: its `name`, or its `type` where it has none."});
    let one_reference = object(json!({"pluginRef": reference}), &["pluginRef"]);
    let quantity = json!({"type": ["string", "integer"], "pattern": "^[0-9.]+([eE][+-]?[0-9]+)?(m|k|[KMGTPE]i?)?$", "examples": ["1Gi", 500]});
    let duration = duration();
    let band = object(
        json!({
            "priority": {"type": "integer"},
            "maxBytes": quantity,
            "maxRequests": quantity,
            "fairnessPolicyRef": {"type": "string"},
            "orderingPolicyRef": {"type": "string"},
        }),
        &["priority"],
    );
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "EndpointPickerConfig",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "apiVersion": {"enum": ["llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1"]},
            "kind": {"const": "EndpointPickerConfig"},
            "featureGates": {
                "type": "array",
                "items": {"type": "string", "pattern": "^(flowControl|haPopulateNonLeaderDatastore)(=.*)?$"},
            },
            "plugins": {"type": "array", "items": plugin()},
            "schedulingProfiles": {
                "type": "array",
                "items": object(
                    json!({
                        "name": {"type": "string", "minLength": 1},
                        "plugins": {
                            "type": ["array", "null"],
                            "items": object(
                                json!({
                                    "pluginRef": reference,
                                    "weight": {"type": "number", "default": 1.0, "description": "Factor of a scorer; only ratios matter."},
                                }),
                                &["pluginRef"],
                            ),
                        },
                    }),
                    &["name"],
                ),
            },
            "dataLayer": object(
                json!({
                    "injectDefaults": {"type": "boolean", "default": true},
                    "sources": {
                        "type": "array",
                        "items": object(
                            json!({"pluginRef": reference, "extractors": {"type": "array", "items": one_reference}}),
                            &["pluginRef"],
                        ),
                    },
                    "discovery": one_reference,
                    "peerDiscovery": one_reference,
                    "crossReplicaSyncerPluginRef": {"type": "string"},
                    "crossReplicaSyncInterval": duration,
                }),
                &[],
            ),
            "flowControl": object(
                json!({
                    "maxBytes": quantity,
                    "maxRequests": quantity,
                    "defaultRequestTTL": duration,
                    "noEndpointRequestTTL": duration,
                    "defaultPriorityBand": band,
                    "defaultNegativePriorityBand": band,
                    "priorityBands": {"type": "array", "items": band},
                    "usageLimitPolicyPluginRef": {"type": "string"},
                    "saturationDetector": one_reference,
                    "enableEviction": {"type": "boolean", "default": false},
                }),
                &[],
            ),
            "requestHandler": object(json!({"parsers": {"type": "array", "items": one_reference}}), &[]),
            "saturationDetector": deprecated(&one_reference, "use flowControl.saturationDetector"),
            "parser": deprecated(&one_reference, "use requestHandler.parsers"),
        },
    })
}

fn deprecated(schema: &Value, instead: &str) -> Value {
    let mut schema = schema.clone();
    schema["deprecated"] = json!(true);
    schema["description"] = json!(format!("Deprecated: {instead}."));
    schema
}

fn object(properties: Value, required: &[&str]) -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": properties, "required": required})
}

fn duration() -> Value {
    json!({"type": "string", "pattern": "^([0-9.]+(ns|us|µs|ms|s|m|h))+$|^0$", "examples": ["250ms", "1m30s"]})
}

/// An entry of `plugins`: what its parameters may be follows from its type.
fn plugin() -> Value {
    let types: Vec<Value> = TABLE.iter().filter(|row| row.build.is_some()).map(type_of).collect();
    let parameters: Vec<Value> = TABLE
        .iter()
        .filter(|row| row.build.is_some())
        .map(|row| {
            let mut then = json!({"properties": {"parameters": parameters(row)}});
            if row.params.iter().any(|p| p.required) {
                then["required"] = json!(["parameters"]);
            }
            json!({"if": {"properties": {"type": {"const": row.type_name}}, "required": ["type"]}, "then": then})
        })
        .collect();
    json!({
        "type": "object",
        "required": ["type"],
        "additionalProperties": false,
        "properties": {
            "name": {"type": "string", "description": "Unique name of the instance; the type where it is left out."},
            "type": {"oneOf": types},
            "parameters": {"type": ["object", "null"]},
        },
        "allOf": parameters,
    })
}

fn type_of(row: &Row) -> Value {
    let mut out = json!({"const": row.type_name, "description": row.doc});
    if let Some(instead) = row.deprecated {
        out["deprecated"] = json!(true);
        out["description"] = json!(format!("Deprecated: {instead}. {}", row.doc));
    }
    out
}

fn parameters(row: &Row) -> Value {
    let mut schema = of_params(row.params);
    schema["type"] = json!(["object", "null"]);
    schema
}

fn of_params(params: &[Param]) -> Value {
    let properties: Map<String, Value> = params.iter().map(|p| (p.name.to_owned(), of_param(p))).collect();
    let required: Vec<&str> = params.iter().filter(|p| p.required).map(|p| p.name).collect();
    object(Value::Object(properties), &required)
}

fn of_param(p: &Param) -> Value {
    let mut schema = of_kind(&p.kind);
    if !p.required {
        or_null(&mut schema);
    }
    schema["description"] = json!(p.doc);
    if let Some(default) = p.default.and_then(|d| serde_json::from_str::<Value>(d).ok()) {
        schema["default"] = default;
    }
    if let Some(instead) = p.deprecated {
        schema["deprecated"] = json!(true);
        schema["description"] = json!(format!("Deprecated: {instead}. {}", p.doc));
    }
    schema
}

/// `null` means the same as leaving it out.
fn or_null(schema: &mut Value) {
    if let Some(words) = schema["enum"].as_array_mut() {
        words.push(Value::Null);
    }
    match &mut schema["type"] {
        Value::String(one) => schema["type"] = json!([one, "null"]),
        Value::Array(several) => several.push("null".into()),
        _ => {}
    }
}

fn of_kind(kind: &ParamKind) -> Value {
    let mut schema = match kind {
        ParamKind::Bool => json!({"type": "boolean"}),
        ParamKind::Integer { .. } => json!({"type": "integer"}),
        ParamKind::Number { .. } => json!({"type": "number"}),
        ParamKind::String => json!({"type": "string"}),
        ParamKind::Enum(words) => json!({"enum": words}),
        ParamKind::Duration => duration(),
        ParamKind::Quantity => json!({"type": ["string", "integer"]}),
        ParamKind::List(of) => json!({"type": "array", "items": of_kind(of)}),
        ParamKind::Object(params) => of_params(params),
        ParamKind::AnyMap => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        ParamKind::Any => json!({}),
    };
    let bounds = match kind {
        ParamKind::Integer { min, max } => (min.map(|v| json!(v)), max.map(|v| json!(v))),
        ParamKind::Number { min, max } => (min.map(|v| json!(v)), max.map(|v| json!(v))),
        _ => (None, None),
    };
    if let Some(min) = bounds.0 {
        schema["minimum"] = min;
    }
    if let Some(max) = bounds.1 {
        schema["maximum"] = max;
    }
    schema
}
