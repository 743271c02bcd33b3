//! Decisions that wait: for a prompt that is being rendered.

use std::sync::Arc;
use std::task::{Context, Waker};

use bytes::Bytes;
use parking_lot::Mutex;
use pointsman_extproc::{Exchange, ExtProcOptions, Shared};
use pointsman_grpc::{Call as _, Code, Out, Status};
use pointsman_plugins::producers::token_producer::render::{RenderCall, RenderClient, RenderError, Rendering};
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use pointsman_router::{Pool, PoolOptions};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::messages;

const CONFIG: &str = "plugins:\n- type: token-producer\n  parameters: {modelName: org/base}\n- type: prefix-cache-scorer\n\
    - type: max-score-picker\n";

/// Answers when it is told to.
#[derive(Debug, Default)]
struct Renderer(Mutex<Vec<oneshot::Sender<Result<Bytes, RenderError>>>>);

impl RenderClient for Renderer {
    fn post(&self, _: RenderCall) -> Rendering {
        let (sender, answer) = oneshot::channel();
        self.0.lock().push(sender);
        Box::pin(async move { answer.await.unwrap_or_else(|_| Err(RenderError::Failed("gone".to_owned()))) })
    }
}

impl Renderer {
    fn answer(&self) {
        let answer = Bytes::from_static(br#"[{"token_ids":[1,2,3]}]"#);
        self.0.lock().remove(0).send(Ok(answer)).expect("somebody waits");
    }

    /// Whether nobody waits any more.
    fn is_given_up(&self) -> bool {
        self.0.lock()[0].is_closed()
    }
}

struct Bench {
    pool: Arc<Pool>,
    renderer: Arc<Renderer>,
    exchange: Exchange,
    out: Out,
}

fn bench() -> Bench {
    let how = CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states: Arc::default() };
    let compiled = compile(CONFIG.as_bytes(), &how, &mut pointsman_config::Faults::new()).expect("a good document");
    let renderer = Arc::new(Renderer::default());
    let options = PoolOptions { states: how.states, render: Some(renderer.clone()), ..PoolOptions::default() };
    let pool = Pool::new(options, compiled);
    let name = pointsman_core::EndpointName::new("default", "a");
    pool.fleet.upsert(pointsman_fleet::EndpointMeta::new(name, "10.0.0.1", 8000));
    let shared = Shared::new(Arc::clone(&pool), ExtProcOptions::default());
    Bench { pool, renderer, exchange: Exchange::new(shared), out: Out::default() }
}

impl Bench {
    fn send(&mut self, message: Value) -> Vec<String> {
        self.exchange.message(messages::encode(&message), &mut self.out);
        self.poll()
    }

    /// Types of what is sent when the exchange is looked at.
    fn poll(&mut self) -> Vec<String> {
        self.exchange.poll(&mut Context::from_waker(Waker::noop()), &mut self.out);
        let sent = messages::decode(&self.out.take());
        sent.iter().map(|m| m["type"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Head and body of a request in full duplex; `end`: no trailers follow.
    fn request(&mut self, end: bool) {
        let headers = json!([[":method", "POST"], [":path", "/v1/completions"], ["x-request-id", "r"]]);
        let modes = json!({"request_body_mode": "FULL_DUPLEX_STREAMED", "response_body_mode": "FULL_DUPLEX_STREAMED"});
        let head =
            json!({"type": "request_headers", "headers": headers, "end_of_stream": false, "protocol_config": modes});
        assert!(self.send(head).is_empty());
        let body =
            json!({"type": "request_body", "body": r#"{"model":"m","prompt":"some text"}"#, "end_of_stream": end});
        assert!(self.send(body).is_empty());
    }

    fn in_flight(&self) -> u64 {
        self.pool.fleet.load().endpoints.iter().map(|e| e.load.requests()).sum()
    }
}

#[test]
fn the_answer_comes_when_the_prompt_is_rendered() {
    let mut bench = bench();
    bench.request(true);
    assert!(bench.poll().is_empty());
    bench.renderer.answer();
    assert_eq!(bench.poll(), ["request_headers", "request_body"]);
    assert_eq!(bench.pool.ring.newest(1, None)[0].prompt_tokens_estimated, 3);
    assert_eq!(bench.in_flight(), 1);
    assert!(bench.poll().is_empty());
}

#[test]
fn trailers_wait_with_the_rest() {
    let mut bench = bench();
    bench.request(false);
    assert!(bench.send(json!({"type": "request_trailers"})).is_empty());
    bench.renderer.answer();
    assert_eq!(bench.poll(), ["request_headers", "request_body", "request_trailers"]);
}

#[test]
fn a_client_that_leaves_ends_the_wait() {
    let mut bench = bench();
    bench.request(true);
    bench.exchange.half_closed(&mut bench.out);
    assert!(bench.renderer.is_given_up());
    assert_eq!(bench.in_flight(), 0);
}

#[test]
fn a_proxy_that_answers_by_itself_ends_the_wait_and_a_shutdown_refuses() {
    let mut bench = bench();
    bench.request(true);
    let head = json!({"type": "response_headers", "headers": [[":status", "503"]], "end_of_stream": false});
    assert_eq!(bench.send(head), ["response_headers"]);
    assert!(bench.renderer.is_given_up());

    let mut bench = self::bench();
    bench.request(true);
    bench.exchange.ended(&Status::new(Code::Unavailable, "stopping"), &mut bench.out);
    let sent = messages::decode(&bench.out.take());
    assert_eq!(sent[0]["type"], "immediate_response", "{sent:?}");
    assert!(bench.renderer.is_given_up());
}
