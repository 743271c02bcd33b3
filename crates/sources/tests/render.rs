//! Prompts posted to a server that is told what to say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use common::{Engine, Reply, until};
use pointsman_plugins::producers::token_producer::render::{Render, RenderCall, RenderClient, RenderError};
use pointsman_sources::Renderers;
use tokio::runtime::Handle;

const PATH: &str = "/v1/completions/render";

fn call(engine: &Engine, timeout: Duration) -> RenderCall {
    let render = Render {
        tls: false,
        host: engine.address.ip().to_string(),
        port: engine.address.port(),
        base: String::new(),
        model: "m".into(),
        timeout,
        mm_timeout: timeout,
    };
    let body = vec![Bytes::from_static(b"{\"model\":"), Bytes::new(), Bytes::from_static(b"\"m\",\"prompt\":\"x\"}")];
    RenderCall { render: Arc::new(render), path: PATH.to_owned(), body, timeout }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_is_posted_in_one_piece_and_the_connection_is_used_again() {
    let engine = Engine::start().await;
    engine.reply(PATH, Reply::ok(r#"[{"token_ids":[1]}]"#));
    let renderers = Renderers::new(Handle::current());
    for _ in 0..5 {
        let answer = renderers.post(call(&engine, Duration::from_secs(5))).await;
        assert_eq!(answer.as_deref(), Ok(&br#"[{"token_ids":[1]}]"#[..]));
    }
    assert_eq!(engine.seen.connections.load(Ordering::SeqCst), 1);
    let (head, body) = engine.seen.posted.lock()[0].clone();
    assert!(head.starts_with("POST /v1/completions/render HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("content-type: application/json") && head.contains("content-length: 26"), "{head}");
    assert_eq!(body, r#"{"model":"m","prompt":"x"}"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_silence_and_answers_without_end_are_told() {
    let engine = Engine::start().await;
    let renderers = Renderers::new(Handle::current());
    let asked = |timeout| renderers.post(call(&engine, timeout));
    engine.reply(PATH, Reply::Plain(404, b"no such model".to_vec()));
    assert_eq!(asked(Duration::from_secs(5)).await, Err(RenderError::Status(404, "no such model".to_owned())));
    engine.reply(PATH, Reply::Silence);
    let late = asked(Duration::from_millis(80)).await;
    assert_eq!(late, Err(RenderError::Failed("no answer within 80 ms".to_owned())));
    engine.reply(PATH, Reply::ok(vec![b'1'; (8 << 20) + 1]));
    let large = asked(Duration::from_secs(5)).await;
    assert_eq!(large, Err(RenderError::Failed("answer larger than 8388608 bytes".to_owned())));
    let gone = call(&engine, Duration::from_secs(5));
    drop(engine);
    let refused = renderers.post(gone).await;
    assert_eq!(refused, Err(RenderError::Failed("connection refused".to_owned())));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_dropped_is_given_up_and_so_many_are_asked_at_a_time() {
    let engine = Engine::start().await;
    engine.reply(PATH, Reply::Silence);
    let renderers = Arc::new(Renderers::new(Handle::current()));
    let all: Vec<_> = (0..200).map(|_| renderers.post(call(&engine, Duration::from_secs(30)))).collect();
    until("as many as may be", || engine.seen.open.load(Ordering::SeqCst) == 64).await;
    common::pause(100).await;
    assert_eq!(engine.seen.open.load(Ordering::SeqCst), 64);
    drop(all);
    until("given up", || engine.seen.open.load(Ordering::SeqCst) == 0).await;
    engine.reply(PATH, Reply::ok("[]"));
    assert!(renderers.post(call(&engine, Duration::from_secs(5))).await.is_ok());
}
