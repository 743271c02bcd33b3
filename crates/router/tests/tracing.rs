//! Traces, against those of the Go picker (`testdata/fixtures/golden/tracing`): spans with their kinds, parents and attributes, and the headers that carry a
//! trace on. `tracing_differences.json` beside this file lists where we differ on purpose.

mod support;

use pointsman_core::{Clock, ManualClock, Nanos};
use pointsman_router::{Pool, PoolOptions, Refused, Routed};
use pointsman_scheduling::Termination;
use pointsman_trace::{Kind, Sampler, Sink, Span, SpanContext, Status, Tracer, Value as Attribute};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{golden, head_of, json as json_file, pool_with, text_of};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331";

/// Keeps spans.
#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Vec<Span>>>);

impl Sink for Kept {
    fn take(&self, spans: Vec<Span>) {
        self.0.lock().expect("nobody panics with it").extend(spans);
    }
}

impl Kept {
    fn take_all(&self) -> Vec<Span> {
        std::mem::take(&mut self.0.lock().expect("nobody panics with it"))
    }
}

struct Process {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
    kept: Kept,
}

impl Process {
    fn start(sampler: Sampler) -> Self {
        let recording = json_file(&golden().join("tracing/no-client-trace.json"));
        let (kept, clock) = (Kept::default(), Arc::new(ManualClock::at(Nanos(1_000_000_000))));
        let tracer = Arc::new(Tracer::new(sampler, Some(Box::new(kept.clone()))));
        let options = PoolOptions { clock: clock.clone(), tracer: Some(tracer), ..PoolOptions::default() };
        let pool = pool_with("tracing", &recording["setup"], options).expect("all its plugins are there");
        Self { pool, clock, kept }
    }

    fn send(&self, sent: &[&Value]) -> Result<Routed, Refused> {
        let mut reading = self.pool.begin(head_of(&self.pool, sent));
        for body in sent.iter().filter(|m| m["type"] == "request_body") {
            self.clock.advance(Duration::from_millis(1));
            reading.push(text_of(&body["body"]).into_bytes().into());
        }
        reading.decide()
    }

    /// One good request with these headers.
    fn good(&self, headers: &[(&str, &str)]) -> Routed {
        let mut all =
            vec![json!([":method", "POST"]), json!([":path", "/v1/completions"]), json!(["x-request-id", "t"])];
        all.extend(headers.iter().map(|(n, v)| json!([n, v])));
        let head = json!({"type": "request_headers", "headers": all});
        let body = json!({"type": "request_body", "body": "{\"model\":\"base-model\",\"prompt\":\"Hello\"}"});
        self.send(&[&head, &body]).expect("routed")
    }
}

fn answered(mut routed: Routed, status: u16) {
    routed.dispatched();
    routed.response_head(status, Some("application/json"), None);
    routed.response_chunk(b"{}");
    routed.finish(Termination::Natural, None);
}

fn sent_of(exchange: &Value) -> Vec<&Value> {
    exchange.as_array().expect("messages").iter().filter_map(|m| m.get("send")).collect()
}

/// A span as the recording writes it, its parent by name.
fn shown(span: &Span, all: &[Span]) -> Value {
    let value = |v: &Attribute| match v {
        Attribute::Int(n) => json!(n),
        // As the recording has it: a whole number has no fraction.
        Attribute::Float(v) => whole(*v),
        Attribute::Text(t) => json!(&**t),
        Attribute::Texts(t) => t.iter().map(|t| json!(&**t)).collect(),
        Attribute::Floats(v) => v.iter().map(|v| whole(*v)).collect(),
    };
    let parent = match span.parent {
        None => Value::Null,
        Some(_) if span.parent_is_remote => json!("client's span"),
        Some(id) => json!(all.iter().find(|s| s.context.span == id).expect("its parent is exported").name),
    };
    let (code, description) = match &span.status {
        Status::Unset => ("Unset", ""),
        Status::Error(text) => ("Error", &**text),
    };
    let attributes: BTreeMap<&str, Value> = span.attributes.iter().map(|(k, v)| (*k, value(v))).collect();
    json!({
        "kind": if span.kind == Kind::Server { "server" } else { "internal" },
        "parent": parent,
        "trace_is_clients": span.context.trace == client().trace,
        "attributes": attributes,
        "status": {"Code": code, "Description": description},
        "events": span.exception.iter().map(|_| "exception").collect::<Vec<_>>(),
    })
}

fn whole(v: f64) -> Value {
    if v.fract() == 0.0 { json!(v as i64) } else { json!(v) }
}

fn client() -> SpanContext {
    SpanContext::parse(&format!("{PARENT}-01")).expect("valid")
}

/// Compares with the recording; what differs is collected as `file: span: field`.
fn compare(file: &str, recorded: &[Value], ours: &[Span], found: &mut BTreeMap<String, Value>) {
    let names: BTreeMap<&str, &Value> = recorded.iter().filter_map(|s| Some((s["id"].as_str()?, &s["name"]))).collect();
    let of = |list: BTreeSet<String>| list;
    assert_eq!(
        of(ours.iter().map(|s| s.name.to_string()).collect()),
        of(recorded.iter().map(|s| s["name"].as_str().expect("a name").to_owned()).collect()),
        "{file}"
    );
    assert_eq!(ours.len(), recorded.len(), "{file}");
    for theirs in recorded {
        let name = theirs["name"].as_str().expect("a name");
        let span = ours.iter().find(|s| s.name == name).expect("compared above");
        assert!(span.start_unix_ns <= span.end_unix_ns, "{name}");
        let mut theirs = theirs.clone();
        if let Some(parent) = theirs["parent"].as_str().and_then(|id| names.get(id)) {
            theirs["parent"] = (*parent).clone();
        }
        for (field, ours) in shown(span, ours).as_object().expect("an object") {
            if *ours != theirs[field] {
                found.insert(format!("{file}: {name}: {field}"), ours.clone());
            }
        }
    }
}

/// The headers that carry a trace, names and values, with generated ids as the recording writes them.
fn compare_headers(file: &str, recorded: &Value, routed: &Routed, found: &mut BTreeMap<String, Value>) {
    let headers = routed.trace_headers().expect("it is traced");
    let ours = SpanContext::parse(headers.traceparent).expect("valid");
    let written = |value: &str| {
        let value = value.replace(&ours.span.to_string(), "<s1>");
        if ours.trace == client().trace { value } else { value.replace(&ours.trace.to_string(), "<trace>") }
    };
    let mut ours: Vec<Value> = headers.iter().map(|(n, v)| json!([n, written(v)])).collect();
    let answer =
        recorded["exchange"].as_array().expect("messages").iter().find_map(|m| m.get("recv")).expect("an answer");
    let theirs = answer["set_headers"].as_array().expect("headers").iter();
    let theirs: Vec<Value> = theirs.filter(|h| pointsman_trace::HEADERS.iter().any(|n| h[0] == *n)).cloned().collect();
    ours.sort_by_key(Value::to_string);
    if ours != theirs {
        found.insert(format!("{file}: headers"), json!(ours));
    }
}

#[test]
fn spans_and_headers_are_those_of_the_recordings_or_differ_on_purpose() {
    let list = json_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tracing_differences.json"));
    let on_purpose = list["differences"].as_object().expect("an object");
    let mut found = BTreeMap::new();
    for file in ["no-client-trace", "sampled-client"] {
        let recording = json_file(&golden().join(format!("tracing/{file}.json")));
        let share = recording["setup"]["environment"]["OTEL_TRACES_SAMPLER_ARG"].as_str();
        let process = Process::start(Sampler::named(None, share).0);
        let spans = recording["spans"].as_array().expect("spans");
        let bad = spans.iter().rposition(|s| s["name"] == "gateway.request").expect("the bad request's");

        let routed = process.send(&sent_of(&recording["exchange"])).expect("routed");
        compare_headers(file, &recording, &routed, &mut found);
        answered(routed, 200);
        compare(file, &spans[..bad], &process.kept.take_all(), &mut found);

        process.send(&sent_of(&recording["exchange_of_the_bad_request"])).expect_err("refused");
        compare(&format!("{file}, bad request"), &spans[bad..], &process.kept.take_all(), &mut found);
    }
    let mut wrong = String::new();
    for (key, ours) in &found {
        if on_purpose.get(key).is_none_or(|d| d["ours"] != *ours) {
            let _ = writeln!(wrong, "{key}: {ours}");
        }
    }
    for key in on_purpose.keys().filter(|k| !found.contains_key(*k)) {
        let _ = writeln!(wrong, "{key}: no longer differs; take it from the list");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn an_unsampled_trace_travels_on_through_a_span_of_ours_and_exports_nothing() {
    let process = Process::start(Sampler::default());
    let parent = format!("{PARENT}-00");
    let routed = process.good(&[("traceparent", &parent), ("tracestate", "a=b"), ("baggage", "k=v")]);
    let headers = routed.trace_headers().expect("it is traced");
    let ours = SpanContext::parse(headers.traceparent).expect("valid");
    assert_eq!((ours.trace, ours.sampled), (client().trace, false));
    assert_ne!(ours.span, client().span);
    let names: Vec<&str> = headers.iter().map(|(name, _)| name).collect();
    assert_eq!(names, pointsman_trace::HEADERS);
    answered(routed, 200);
    assert!(process.kept.take_all().is_empty());
}

#[test]
fn an_invalid_traceparent_is_replaced_by_a_new_trace() {
    let process = Process::start(Sampler::AlwaysOn);
    let routed = process.good(&[("traceparent", "00-zz"), ("tracestate", "a=b"), ("baggage", "not baggage")]);
    let headers: Vec<(&str, &str)> = routed.trace_headers().expect("it is traced").iter().collect();
    assert_eq!(headers.len(), 1);
    assert!(SpanContext::parse(headers[0].1).is_some_and(|c| c.sampled));
}

#[test]
fn without_a_tracer_the_headers_are_nobodys_business() {
    let recording = json_file(&golden().join("tracing/no-client-trace.json"));
    let pool = pool_with("tracing", &recording["setup"], PoolOptions::default()).expect("its plugins are there");
    let process = Process { pool, clock: Arc::default(), kept: Kept::default() };
    assert_eq!(process.good(&[("traceparent", &format!("{PARENT}-01"))]).trace_headers(), None);
}

#[test]
fn the_steps_of_scheduling_are_on_their_way_before_the_response_and_the_request_when_it_is_over() {
    let process = Process::start(Sampler::AlwaysOn);
    let mut routed = process.good(&[]);
    assert!(process.kept.take_all().is_empty());
    routed.dispatched();
    let names = |spans: Vec<Span>| spans.into_iter().map(|s| s.name.into_owned()).collect::<Vec<_>>();
    let early = names(process.kept.take_all());
    assert_eq!((early.first().map(String::as_str), early.len()), (Some("run_scheduler_profile"), 7), "{early:?}");
    process.clock.advance(Duration::from_millis(250));
    drop(routed);
    let last = process.kept.take_all();
    assert_eq!(last[0].end_unix_ns - last[0].start_unix_ns, 251_000_000);
    assert_eq!(last[0].end_unix_ns, process.clock.unix_nanos());
    assert_eq!(last[0].status, Status::Unset);
    assert_eq!(names(last), ["gateway.request"]);
}

#[test]
fn a_request_ends_in_error_when_it_failed_and_a_body_that_never_came_ends_it_too() {
    let process = Process::start(Sampler::AlwaysOn);
    let status = || process.kept.take_all().pop().expect("the request's span").status;
    answered(process.good(&[]), 503);
    assert_eq!(status(), Status::Error("ModelServerError".into()));
    process.good(&[]).finish(Termination::Error, Some("the engine is gone".into()));
    assert_eq!(status(), Status::Error("the engine is gone".into()));
    let head = json!({"type": "request_headers", "headers": [[":method", "POST"], [":path", "/v1/completions"]]});
    drop(process.pool.begin(head_of(&process.pool, &[&head])));
    assert_eq!(status(), Status::Unset);
    for endpoint in &process.pool.fleet.snapshot().endpoints {
        process.pool.fleet.remove(endpoint.name());
    }
    let body = json!({"type": "request_body", "body": "{\"model\":\"m\",\"prompt\":\"x\"}"});
    process.send(&[&head, &body]).expect_err("nobody is left");
    let spans = process.kept.take_all();
    assert_eq!(spans.len(), 2);
    assert!(spans.iter().all(|s| matches!(&s.status, Status::Error(e) if e.contains("ServiceUnavailable"))));
}
