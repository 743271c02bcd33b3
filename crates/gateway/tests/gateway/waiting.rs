//! Requests that wait before they are decided: for a server that renders their prompts.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::*;
use pointsman_config::Faults;
use pointsman_gateway::GatewayOptions;
use pointsman_plugins::DefaultProfile;
use pointsman_router::PoolOptions;
use pointsman_sources::Renderers;
use tokio::runtime::Handle;

/// A gateway whose prompts are rendered by `renderer`.
async fn rendering(engine: &Engine, renderer: &Engine) -> Running {
    let render = Some(Arc::new(Renderers::new(Handle::current())) as _);
    let pool = PoolOptions { render, ..PoolOptions::default() };
    let gateway = Running::start_in(pool, &[engine.address], GatewayOptions::default(), |_| {}).await;
    let document = format!(
        "plugins:\n- type: token-producer\n  parameters: {{modelName: org/base, vllm: {{url: 'http://{}'}}}}\n- type: prefix-cache-scorer\n",
        renderer.address
    );
    let mut faults = Faults::new();
    let compiled = gateway.pool.recompile(document.as_bytes(), false, DefaultProfile::Serve, &mut faults);
    gateway.pool.activate(compiled.expect("a good document"));
    gateway
}

#[tokio::test]
async fn a_request_is_counted_in_the_tokens_that_the_server_gives_and_goes_on_as_it_came() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let renderer = Engine::start(|_| Reply::Write(ok("application/json", r#"{"token_ids":[5,6,7,8,9]}"#))).await;
    let gateway = rendering(&engine, &renderer).await;
    assert_eq!(gateway.ask(chat("a few words")).await.status(), 200);
    assert_eq!(gateway.records()[0]["prompt_tokens_estimated"], 5);
    let asked = renderer.only();
    assert!(asked.head.starts_with("POST /v1/chat/completions/render "), "{}", asked.head);
    assert!(String::from_utf8_lossy(&asked.body).contains("\"model\":\"org/base\""));
    assert_eq!(engine.only().body, chat_body("a few words").into_bytes());
    gateway.settled().await;
}

#[tokio::test]
async fn a_server_that_fails_costs_the_request_nothing_but_its_estimate() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let renderer = Engine::start(|_| Reply::Close(b"nonsense".to_vec())).await;
    let gateway = rendering(&engine, &renderer).await;
    assert_eq!(gateway.ask(chat("a few words")).await.status(), 200);
    assert!(gateway.page().contains("pointsman_rendered_prompts_total{result=\"failed\"} 1"));
}

#[tokio::test]
async fn a_client_that_leaves_is_waited_for_no_more() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let renderer = Engine::start(|_| Reply::Hang(Vec::new())).await;
    let gateway = rendering(&engine, &renderer).await;
    let mut client = gateway.client().await;
    client.send(chat("a few words")).await;
    eventually("the server is asked", || renderer.count() == 1).await;
    drop(client);
    eventually("the server is left", || renderer.left.load(Ordering::SeqCst) == 1).await;
    assert_eq!((engine.count(), gateway.records().len()), (0, 0));
}
