//! The trace of one request (metrics and tracing 5): which headers carry it on, and the spans of what happened here.
//!
//! `gateway.request` lasts from the request's head to its end. In it lies `gateway.request_orchestration`, from the request understood to its decision, and in
//! that the steps of [scheduling]. All are made of what was measured anyway, when it is over, and only when the trace is sampled and exported: another request
//! costs a random number and its `traceparent`.

mod scheduling;

use crate::head::RequestHead;
use pointsman_core::{Clock, Nanos, Refusal};
use pointsman_plugins::Compiled;
use pointsman_scheduling::{Candidate, ProfileRun, Request, Termination};
use pointsman_trace::{Carried, Incoming, Kind, Span, SpanContext, SpanId, Status, TraceParent, Tracer, Value};
use std::borrow::Cow;
use std::sync::Arc;

/// The headers that carry a trace on. The transport takes the client's copies of [`pointsman_trace::HEADERS`] off the request it forwards, and puts these on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceHeaders<'a> {
    /// Our span, as the parent of the engine's.
    pub traceparent: &'a str,
    /// The client's, when it is valid and came with a valid `traceparent`.
    pub tracestate: Option<&'a str>,
    /// The client's, when it is valid.
    pub baggage: Option<&'a str>,
}

impl<'a> TraceHeaders<'a> {
    /// Names and values, each name at most once.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'a str)> + use<'a> {
        let [parent, state, baggage] = pointsman_trace::HEADERS;
        [(parent, Some(self.traceparent)), (state, self.tracestate), (baggage, self.baggage)]
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
    }
}

/// The trace of one request. Dropped unfinished, its span ends without a word.
#[derive(Debug)]
pub(crate) struct Trace {
    traceparent: TraceParent,
    state: Carried,
    baggage: Carried,
    recording: Option<Box<Recording>>,
}

/// What is kept of a request whose spans are exported.
#[derive(Debug)]
struct Recording {
    tracer: Arc<Tracer>,
    clock: Arc<dyn Clock>,
    /// Wall-clock time of the zero of the monotone clock, nanoseconds since the Unix epoch.
    zero: i64,
    context: SpanContext,
    parent: Option<SpanId>,
    received: Nanos,
    orchestration: Option<Orchestration>,
    /// Spans that are over and were not handed over yet.
    spans: Vec<Span>,
    status: Status,
    exception: Option<Cow<'static, str>>,
}

/// The open `gateway.request_orchestration`.
#[derive(Debug)]
struct Orchestration {
    context: SpanContext,
    start: Nanos,
    attributes: Vec<(&'static str, Value)>,
}

impl Trace {
    /// The request's head is here.
    pub(crate) fn begin(tracer: &Arc<Tracer>, head: &RequestHead, clock: &Arc<dyn Clock>) -> Self {
        let incoming = Incoming::read(&head.headers);
        let context = tracer.begin(&incoming);
        let recording = tracer.records(context).then(|| {
            Box::new(Recording {
                tracer: Arc::clone(tracer),
                clock: Arc::clone(clock),
                zero: clock.unix_nanos() as i64 - clock.now().0 as i64,
                context,
                parent: incoming.parent.map(|parent| parent.span),
                received: head.received,
                orchestration: None,
                spans: Vec::new(),
                status: Status::Unset,
                exception: None,
            })
        });
        // Not the whole of `incoming`: this is moved with its request, several times.
        Self { traceparent: context.traceparent(), state: incoming.state, baggage: incoming.baggage, recording }
    }

    /// Whether its spans are wanted.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recording.is_some()
    }

    /// What carries it on, given the request's own headers.
    pub(crate) fn headers<'a>(&'a self, of_request: &'a [(Box<str>, Box<str>)]) -> TraceHeaders<'a> {
        TraceHeaders {
            traceparent: self.traceparent.as_str(),
            tracestate: self.state.value(of_request),
            baggage: self.baggage.value(of_request),
        }
    }

    /// The request was understood at `start`: what follows is the decision.
    pub(crate) fn resolved(&mut self, request: &Request, start: Nanos) {
        let Some(recording) = &mut self.recording else { return };
        let attributes = vec![
            ("target_model", Value::from(&request.target_model)),
            ("request_prio", Value::Int(request.priority.into())),
        ];
        let context = SpanContext { span: SpanId::random(), ..recording.context };
        recording.orchestration = Some(Orchestration { context, start, attributes });
    }

    /// The profiles ran.
    pub(crate) fn scheduled(
        &mut self,
        compiled: &Compiled,
        runs: &[(usize, ProfileRun)],
        candidates: &[Candidate<'_>],
        request: &Request,
    ) {
        let Some(recording) = &mut self.recording else { return };
        let parent = recording.orchestration.as_ref().map_or(recording.context, |o| o.context);
        for (p, run) in runs {
            if let Some(profile) = compiled.scheduler.profiles.get(*p) {
                let spans = scheduling::spans(parent, profile, run, candidates, request, |at| recording.unix(at));
                recording.spans.extend(spans);
            }
        }
    }

    /// The decision is made.
    pub(crate) fn routed(&mut self, now: Nanos) {
        if let Some(recording) = &mut self.recording {
            recording.orchestrated(now, None);
        }
    }

    /// The decision is a refusal; so ends the trace.
    pub(crate) fn refused(mut self, refusal: &Refusal, now: Nanos) {
        let Some(recording) = &mut self.recording else { return };
        let text = format!("inference error: {} - {}", refusal.code.as_str(), refusal.message);
        recording.orchestrated(now, Some(&text));
        recording.fail(text.into());
    }

    /// Hands over what is over already. Called when the request is on its way, and need not wait for it.
    pub(crate) fn hand_over(&mut self) {
        if let Some(recording) = &mut self.recording {
            let spans = std::mem::take(&mut recording.spans);
            recording.tracer.record(spans);
        }
    }

    /// The request is over. `engine_failed`: its engine answered with an error, or not at all.
    pub(crate) fn ended(mut self, how: Termination, engine_failed: bool, error: Option<&str>) {
        let Some(recording) = &mut self.recording else { return };
        match how {
            Termination::Error | Termination::Shutdown => {
                recording.fail(error.map_or(Cow::Borrowed(how.as_str()), |e| Cow::Owned(e.to_owned())));
            }
            Termination::Natural if engine_failed => recording.status = Status::Error("ModelServerError".into()),
            // The client knows best why it left; nothing failed here.
            Termination::Natural | Termination::ClientDisconnect => {}
        }
    }
}

impl Recording {
    fn unix(&self, at: Nanos) -> u64 {
        (at.0 as i64 + self.zero).max(0) as u64
    }

    fn fail(&mut self, error: Cow<'static, str>) {
        self.exception = Some(error.clone());
        self.status = Status::Error(error);
    }

    fn orchestrated(&mut self, now: Nanos, error: Option<&str>) {
        let Some(o) = self.orchestration.take() else { return };
        let error: Option<Cow<'static, str>> = error.map(|e| e.to_owned().into());
        let span = Span {
            name: "gateway.request_orchestration".into(),
            kind: Kind::Internal,
            context: o.context,
            parent: Some(self.context.span),
            parent_is_remote: false,
            start_unix_ns: self.unix(o.start),
            end_unix_ns: self.unix(now),
            attributes: o.attributes,
            status: error.clone().map_or(Status::Unset, Status::Error),
            exception: error,
        };
        self.spans.push(span);
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let now = self.clock.now();
        self.orchestrated(now, None);
        let span = Span {
            name: "gateway.request".into(),
            kind: Kind::Server,
            context: self.context,
            parent: self.parent,
            parent_is_remote: self.parent.is_some(),
            start_unix_ns: self.unix(self.received),
            end_unix_ns: self.unix(now),
            attributes: Vec::new(),
            status: std::mem::take(&mut self.status),
            exception: self.exception.take(),
        };
        self.spans.push(span);
        self.tracer.record(std::mem::take(&mut self.spans));
    }
}
