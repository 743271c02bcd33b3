//! From our spans to those of the OpenTelemetry SDK, and into its queue.

use crate::Build;
use opentelemetry::trace::{Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{Array, InstrumentationScope, KeyValue, StringValue, Value};
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};
use pointsman_trace as ours;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Feeds the batch processor, which lets spans go when its queue is full.
#[derive(Debug)]
pub(crate) struct Export {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
}

impl Export {
    pub(crate) fn new(processor: Arc<BatchSpanProcessor>, build: &Build) -> Self {
        let scope = InstrumentationScope::builder("pointsman")
            .with_version(build.version)
            .with_attributes([KeyValue::new("commit-sha", build.commit)])
            .build();
        Self { processor, scope }
    }
}

impl ours::Sink for Export {
    fn take(&self, spans: Vec<ours::Span>) {
        for span in spans {
            self.processor.on_end(data(span, self.scope.clone()));
        }
    }
}

/// One span as the SDK has it.
pub(crate) fn data(span: ours::Span, instrumentation_scope: InstrumentationScope) -> SpanData {
    let end_time = at(span.end_unix_ns);
    let mut events = SpanEvents::default();
    if let Some(message) = span.exception {
        let attributes = vec![KeyValue::new("exception.message", message.into_owned())];
        events.events.push(Event::new("exception", end_time, attributes, 0));
    }
    SpanData {
        span_context: SpanContext::new(
            TraceId::from(span.context.trace.0.get()),
            SpanId::from(span.context.span.0.get()),
            TraceFlags::default().with_sampled(span.context.sampled),
            false,
            TraceState::NONE,
        ),
        parent_span_id: span.parent.map_or(SpanId::INVALID, |id| SpanId::from(id.0.get())),
        parent_span_is_remote: span.parent_is_remote,
        span_kind: match span.kind {
            ours::Kind::Server => SpanKind::Server,
            ours::Kind::Internal => SpanKind::Internal,
        },
        name: span.name,
        start_time: at(span.start_unix_ns),
        end_time,
        attributes: span.attributes.into_iter().map(|(name, v)| KeyValue::new(name, value(v))).collect(),
        dropped_attributes_count: 0,
        events,
        links: SpanLinks::default(),
        status: match span.status {
            ours::Status::Unset => Status::Unset,
            ours::Status::Error(description) => Status::Error { description },
        },
        instrumentation_scope,
    }
}

fn at(unix_ns: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(unix_ns)
}

fn value(value: ours::Value) -> Value {
    match value {
        ours::Value::Int(n) => n.into(),
        ours::Value::Float(v) => v.into(),
        ours::Value::Text(text) => StringValue::from(text).into(),
        ours::Value::Texts(texts) => Value::Array(Array::String(texts.into_iter().map(StringValue::from).collect())),
        ours::Value::Floats(values) => Value::Array(Array::F64(values)),
    }
}
