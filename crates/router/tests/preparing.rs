//! What a request waits for before its decision: rendered prompts, and others to be placed with.

use bytes::Bytes;
use parking_lot::Mutex;
use pointsman_config::Faults;
use pointsman_core::{Clock, EndpointName, ManualClock, Nanos, Timer, Wait};
use pointsman_fleet::EndpointMeta;
use pointsman_plugins::producers::token_producer::render::{RenderCall, RenderClient, RenderError, Rendering};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, Preparing, Reading, RequestHead, Routed};
use pointsman_scheduling::Termination;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Waits by a clock that moves only when told to.
#[derive(Debug)]
struct ManualTimer(Arc<ManualClock>);

impl Timer for ManualTimer {
    fn until(&self, at: Nanos) -> Wait {
        let clock = Arc::clone(&self.0);
        Box::pin(poll_fn(move |_| if clock.now() >= at { Poll::Ready(()) } else { Poll::Pending }))
    }
}

/// Answers what it is told to.
#[derive(Debug)]
struct Renderer {
    answer: Mutex<Result<Bytes, RenderError>>,
    asked: Mutex<Vec<(String, String)>>,
}

impl RenderClient for Renderer {
    fn post(&self, call: RenderCall) -> Rendering {
        self.asked.lock().push((call.path, String::from_utf8(call.body.concat()).expect("text")));
        Box::pin(std::future::ready(self.answer.lock().clone()))
    }
}

struct Bench {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
    renderer: Arc<Renderer>,
}

fn bench(config: &str) -> Bench {
    let states = Arc::<LearnedStates>::default();
    let how = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::clone(&states) };
    let mut faults = Faults::new();
    let compiled = compile(config.as_bytes(), &how, &mut faults);
    let compiled =
        compiled.unwrap_or_else(|| panic!("{:?}", faults.iter().map(ToString::to_string).collect::<Vec<_>>()));
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let answer = Mutex::new(Err(RenderError::Failed("connection refused".to_owned())));
    let renderer = Arc::new(Renderer { answer, asked: Mutex::default() });
    let options = PoolOptions {
        clock: clock.clone(),
        states,
        timer: Some(Arc::new(ManualTimer(Arc::clone(&clock)))),
        render: Some(renderer.clone()),
        ..PoolOptions::default()
    };
    let pool = Pool::new(options, compiled);
    for i in 1..=4 {
        let name = EndpointName::new("default", format!("e{i}"));
        pool.fleet.upsert(EndpointMeta::new(name, format!("10.0.0.{i}"), 8000));
    }
    Bench { pool, clock, renderer }
}

impl Bench {
    fn reading(&self, body: &str) -> Reading {
        let mut reading = self.pool.begin(RequestHead {
            transport: "gateway",
            method: "POST".into(),
            path: "/v1/completions".into(),
            headers: Arc::new([("x-request-id".into(), "r".into())]),
            received: self.clock.now(),
            subset: None,
        });
        reading.push(Bytes::from(body.to_owned()));
        reading
    }

    /// Waits for what is there at once, and decides.
    fn send(&self, body: &str) -> Routed {
        let mut reading = self.reading(body);
        while let Some(mut wait) = reading.prepare() {
            assert!(advance(&mut reading, &mut wait), "it would wait");
        }
        reading.decide().expect("routed")
    }

    fn page(&self) -> String {
        self.pool.metrics.render(&self.pool.fleet.snapshot(), self.clock.now(), false)
    }
}

/// Whether a wait is over; what it came to is taken.
fn advance(reading: &mut Reading, wait: &mut Preparing) -> bool {
    match Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(prepared) => {
            reading.resume(prepared);
            true
        }
        Poll::Pending => false,
    }
}

const RENDERED: &str = "plugins:\n- type: token-producer\n  parameters: {modelName: org/base}\n- type: prefix-cache-scorer\n\
    - type: approx-prefix-cache-producer\n- type: max-score-picker\n";

const HELD: &str = "plugins:\n- type: burst-prefix-cache-producer\n  parameters: {windowDurationMs: 50}\n\
    - type: prefix-cache-scorer\n- type: max-score-picker\n";

#[test]
fn in_an_ordinary_configuration_there_is_nothing_to_wait_for() {
    let bench = bench("");
    assert!(bench.reading(r#"{"model":"m","prompt":"x"}"#).prepare().is_none());
}

#[test]
fn tokens_are_those_of_the_rendered_prompt() {
    let bench = bench(RENDERED);
    *bench.renderer.answer.lock() = Ok(Bytes::from_static(br#"[{"token_ids":[1,2,3,4,5,6,7]}]"#));
    let routed = bench.send(r#"{"model":"m","prompt":"some text or other, of more than seven words by its bytes"}"#);
    assert_eq!((routed.decision().prompt_tokens_estimated, routed.decision().blocks), (7, (64, 1)));
    let asked = bench.renderer.asked.lock().clone();
    let want = r#"{"model":"org/base","prompt":"some text or other, of more than seven words by its bytes"}"#;
    assert_eq!(asked, [("/v1/completions/render".to_owned(), want.to_owned())]);
    // What is sent on is what came.
    assert!(routed.body().concat().starts_with(br#"{"model":"m""#));
}

#[test]
fn texts_of_the_same_tokens_share_what_an_endpoint_holds() {
    let bench = bench(RENDERED);
    *bench.renderer.answer.lock() =
        Ok(Bytes::from(format!("[{{\"token_ids\":{:?}}}]", (0..640).collect::<Vec<u32>>())));
    let mut first = bench.send(r#"{"model":"m","prompt":"one spelling"}"#);
    first.dispatched();
    let second = bench.send(r#"{"model":"m","prompt":"another spelling"}"#);
    assert_eq!(second.endpoint().name(), first.endpoint().name());
    assert_eq!(second.decision().profiles[0].candidates.iter().map(|c| c.prefix_match_tokens).max(), Some(640));
    first.finish(Termination::Natural, None);
    second.finish(Termination::Natural, None);
}

#[test]
fn what_cannot_be_rendered_is_estimated_and_counted() {
    let bench = bench(RENDERED);
    let body = format!("{{\"model\":\"m\",\"prompt\":\"{}\"}}", "x".repeat(400));
    assert_eq!(bench.send(&body).decision().prompt_tokens_estimated, 100);
    *bench.renderer.answer.lock() = Ok(Bytes::from_static(b"nonsense"));
    assert_eq!(bench.send(&body).decision().prompt_tokens_estimated, 100);
    assert!(bench.page().contains("pointsman_rendered_prompts_total{result=\"failed\"} 2"), "{}", bench.page());
}

#[test]
fn ids_that_the_client_sent_and_bodies_that_are_wrong_are_not_rendered() {
    let bench = bench(RENDERED);
    assert_eq!(bench.send(r#"{"model":"m","prompt":[1,2,3]}"#).decision().prompt_tokens_estimated, 3);
    let mut reading = bench.reading("not JSON");
    assert!(reading.prepare().is_none());
    assert_eq!(reading.decide().expect_err("refused").refusal.code.status(), 400);
    assert!(bench.renderer.asked.lock().is_empty());
}

#[test]
fn cached_tokens_are_predicted_by_the_index_whoever_else_speaks_of_prefixes() {
    let with_index = HELD.replace("- type: prefix", "- type: approx-prefix-cache-producer\n- type: prefix").replace(
        "prefix-cache-scorer\n",
        "prefix-cache-scorer\n  parameters: {prefixMatchInfoProducerName: burst-prefix-cache-producer}\n",
    );
    let bench = bench(&with_index);
    let mut reading = bench.reading(&format!("{{\"model\":\"m\",\"prompt\":\"{}\"}}", "x".repeat(4_096)));
    let mut wait = reading.prepare().expect("held");
    bench.clock.advance(Duration::from_millis(50));
    assert!(advance(&mut reading, &mut wait));
    assert!(reading.prepare().is_none());
    let routed = reading.decide().expect("routed");
    assert_eq!(routed.decision().steps.wait, 50_000_000);
    assert_eq!(routed.decision().outcome.lock().cached_tokens_predicted, 0, "nobody has seen this prompt");
    routed.finish(Termination::Natural, None);
}

#[test]
fn equal_prompts_are_held_for_the_window_and_go_to_one_endpoint() {
    let bench = bench(HELD);
    let body = |n: u32| format!("{{\"model\":\"m\",\"prompt\":\"{}\"}}", format!("{n:064}").repeat(8));
    let mut held: Vec<(Reading, Preparing)> = (0..12)
        .map(|n| {
            let mut reading = bench.reading(&body(n % 3));
            let wait = reading.prepare().expect("held");
            bench.clock.advance(Duration::from_millis(1));
            (reading, wait)
        })
        .collect();
    // One of them leaves.
    drop(held.pop());
    assert!(held.iter_mut().all(|(reading, wait)| !advance(reading, wait)), "the window is open");
    bench.clock.advance(Duration::from_millis(50));
    let mut chosen: Vec<Vec<String>> = vec![Vec::new(); 3];
    for (n, (mut reading, mut wait)) in held.into_iter().enumerate() {
        assert!(advance(&mut reading, &mut wait), "the window is closed");
        assert!(reading.prepare().is_none());
        let routed = reading.decide().expect("routed");
        chosen[n % 3].push(routed.endpoint().name().to_string());
        routed.finish(Termination::Natural, None);
    }
    assert!(chosen.iter().all(|c| c.iter().all(|e| *e == c[0])), "{chosen:?}");
    let distinct: std::collections::BTreeSet<&String> = chosen.iter().map(|c| &c[0]).collect();
    assert_eq!(distinct.len(), 3, "three prompts on three of four endpoints: {chosen:?}");
}

#[test]
fn a_request_without_a_prompt_is_not_held() {
    let bench = bench(HELD);
    let mut reading = bench.reading("");
    reading.without_body(true);
    assert!(reading.prepare().is_none());
    assert!(reading.decide().is_ok());
}
