//! Spans on stdout, one JSON object a line, for whoever wants to see them without a collector.

use opentelemetry::trace::Status;
use opentelemetry::{Array, KeyValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::{OTelSdkError, OTelSdkResult};
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use serde_json::{Map, json};
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct Console {
    resource: Map<String, serde_json::Value>,
}

impl SpanExporter for Console {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let mut text = String::new();
        for span in &batch {
            text.push_str(&self.line(span));
            text.push('\n');
        }
        let mut out = std::io::stdout().lock();
        let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        written.map_err(|e| OTelSdkError::InternalFailure(format!("stdout: {e}")))
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.resource = resource.iter().map(|(k, v)| (k.to_string(), plain(v))).collect();
    }
}

impl Console {
    fn line(&self, span: &SpanData) -> String {
        let (code, description) = match &span.status {
            Status::Error { description } => ("Error", &**description),
            Status::Ok => ("Ok", ""),
            Status::Unset => ("Unset", ""),
        };
        json!({
            "name": span.name,
            "kind": format!("{:?}", span.span_kind).to_lowercase(),
            "trace_id": span.span_context.trace_id().to_string(),
            "span_id": span.span_context.span_id().to_string(),
            "parent_span_id": span.parent_span_id.to_string(),
            "start_unix_ns": nanos(span.start_time),
            "end_unix_ns": nanos(span.end_time),
            "attributes": map(&span.attributes),
            "events": span.events.iter().map(|e| json!({"name": e.name, "attributes": map(&e.attributes)})).collect::<Vec<_>>(),
            "status": {"code": code, "description": description},
            "resource": self.resource,
        })
        .to_string()
    }
}

fn nanos(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
}

fn map(attributes: &[KeyValue]) -> Map<String, serde_json::Value> {
    attributes.iter().map(|kv| (kv.key.to_string(), plain(&kv.value))).collect()
}

fn plain(value: &Value) -> serde_json::Value {
    match value {
        Value::Bool(b) => json!(b),
        Value::I64(n) => json!(n),
        Value::F64(v) => json!(v),
        Value::Array(Array::F64(values)) => json!(values),
        Value::Array(Array::String(texts)) => texts.iter().map(|t| json!(t.as_str())).collect(),
        other => json!(other.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::export::data;
    use opentelemetry::InstrumentationScope;
    use pointsman_trace::{Kind, Span, SpanContext, SpanId, Status, TraceId, Value as Ours};

    #[test]
    fn a_span_is_one_line_of_json_with_all_that_is_known_of_it() {
        let context = SpanContext { trace: TraceId::random(), span: SpanId::random(), sampled: true };
        let span = Span {
            name: "pick_endpoints".into(),
            kind: Kind::Internal,
            context,
            parent: None,
            parent_is_remote: false,
            start_unix_ns: 7,
            end_unix_ns: 9,
            attributes: vec![
                ("n", Ours::Int(3)),
                ("top", Ours::Texts(vec!["a/b".into()])),
                ("s", Ours::Floats(vec![2.5])),
            ],
            status: Status::Error("no".into()),
            exception: Some("no".into()),
        };
        let line = Console::default().line(&data(span, InstrumentationScope::builder("x").build()));
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert!(!line.contains('\n'));
        assert_eq!(read["trace_id"], context.trace.to_string());
        assert_eq!(read["span_id"], context.span.to_string());
        assert_eq!((&read["start_unix_ns"], &read["end_unix_ns"]), (&json!(7), &json!(9)));
        assert_eq!(read["attributes"], json!({"n": 3, "top": ["a/b"], "s": [2.5]}));
        assert_eq!(read["events"][0]["name"], "exception");
        assert_eq!(read["status"]["description"], "no");
    }
}
