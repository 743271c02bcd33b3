//! Who is asked of every request.

use crate::{Incoming, Sampler, Span, SpanContext, SpanId, TraceId};
use std::fmt;

/// Where finished spans go.
pub trait Sink: Send + Sync + fmt::Debug {
    /// Takes spans of one request. Called from the request's own task: it must not wait, and lets spans go when it cannot keep up.
    fn take(&self, spans: Vec<Span>);
}

/// A sampler, and where spans go.
#[derive(Debug, Default)]
pub struct Tracer {
    sampler: Sampler,
    sink: Option<Box<dyn Sink>>,
}

impl Tracer {
    /// A tracer. Without a sink, contexts travel on as with one, but no span is recorded.
    #[must_use]
    pub fn new(sampler: Sampler, sink: Option<Box<dyn Sink>>) -> Self {
        Self { sampler, sink }
    }

    /// The context of a new span of this request.
    #[must_use]
    pub fn begin(&self, incoming: &Incoming) -> SpanContext {
        let trace = incoming.parent.map_or_else(TraceId::random, |parent| parent.trace);
        SpanContext { trace, span: SpanId::random(), sampled: self.sampler.samples(trace, incoming.parent) }
    }

    /// Whether spans of that context are wanted.
    #[must_use]
    pub fn records(&self, context: SpanContext) -> bool {
        context.sampled && self.sink.is_some()
    }

    /// Hands spans over.
    pub fn record(&self, spans: Vec<Span>) {
        if let Some(sink) = self.sink.as_ref().filter(|_| !spans.is_empty()) {
            sink.take(spans);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_of_ours_stands_between_the_clients_and_whoever_comes_next() {
        let parent = SpanContext { trace: TraceId::random(), span: SpanId::random(), sampled: false };
        let tracer = Tracer::new(Sampler::default(), None);
        let ours = tracer.begin(&Incoming { parent: Some(parent), ..Incoming::default() });
        assert_eq!((ours.trace, ours.sampled), (parent.trace, false));
        assert_ne!(ours.span, parent.span);
        let (one, other) = (tracer.begin(&Incoming::default()), tracer.begin(&Incoming::default()));
        assert_ne!(one.trace, other.trace);
    }

    #[test]
    fn without_a_sink_nothing_is_recorded() {
        let tracer = Tracer::new(Sampler::AlwaysOn, None);
        let context = tracer.begin(&Incoming::default());
        assert!(context.sampled && !tracer.records(context));
    }
}
