//! Own paths, clients that leave, shutdown.

use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;
use pointsman_core::headers::DROP_REASON;
use pointsman_fleet::Condition;
use pointsman_gateway::GatewayOptions;

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: g\r\n\r\n")
}

#[tokio::test]
async fn readiness_follows_the_endpoints_and_health_does_not() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    assert_eq!(gateway.ask(get("/readyz")).await.status(), 200);
    let endpoint = std::sync::Arc::clone(&gateway.pool.fleet.snapshot().endpoints[0]);
    endpoint.health.set(Condition::Drained, Some("by hand".into()), &*gateway.pool.clock);
    assert_eq!(gateway.ask(get("/readyz")).await.status(), 503);
    assert_eq!(gateway.ask(get("/healthz")).await.status(), 200);
    assert_eq!(engine.count(), 0);
}

#[tokio::test]
async fn br_33_an_empty_pool_answers_503_with_its_reason() {
    let gateway = Running::start(&[], GatewayOptions::default()).await;
    let answer = gateway.ask(chat("x")).await;
    assert_eq!((answer.status(), answer.header(DROP_REASON)), (503, Some("rejected-no-endpoints")));
    assert_eq!(answer.json()["error"]["type"], "InternalServerError");
    assert_eq!(answer.header("x-pointsman-decision"), gateway.records()[0]["id"].as_str());
}

#[tokio::test]
async fn a_body_that_is_refused_is_an_openai_shaped_400() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    for body in [r#"{"model":"m","messages":[]}"#, "{", "[]"] {
        let answer = gateway.ask(post("/v1/chat/completions", body)).await;
        assert_eq!(answer.status(), 400, "{body}");
        assert_eq!(answer.json()["error"]["type"], "BadRequestError");
    }
    assert_eq!(engine.count(), 0);
}

#[tokio::test]
async fn models_are_merged_over_the_ready_endpoints() {
    fn lists(ids: &'static [&'static str]) -> impl Fn(&Received) -> Reply {
        move |r| {
            assert!(r.head.starts_with("GET /v1/models HTTP/1.1"), "{}", r.head);
            let data: Vec<_> = ids.iter().map(|id| serde_json::json!({"id": id, "object": "model"})).collect();
            Reply::Write(ok("application/json", serde_json::json!({"object": "list", "data": data}).to_string()))
        }
    }
    let engines = [
        Engine::start(lists(&["base", "lora-a"])).await,
        Engine::start(lists(&["base", "lora-b"])).await,
        Engine::start(|_| Reply::Hang(Vec::new())).await,
        Engine::start(lists(&["hidden"])).await,
    ];
    let addresses: Vec<_> = engines.iter().map(|e| e.address).collect();
    let options = GatewayOptions { models_timeout: Duration::from_millis(200), ..GatewayOptions::default() };
    let gateway = Running::start(&addresses, options).await;
    let fleet = gateway.pool.fleet.snapshot();
    fleet.endpoints[3].health.set(Condition::Drained, Some("by hand".into()), &*gateway.pool.clock);
    let answer = gateway.ask("GET /v1/models HTTP/1.1\r\nhost: g\r\nauthorization: Bearer k\r\n\r\n").await;
    let ids: Vec<_> = answer.json()["data"].as_array().unwrap().iter().map(|m| m["id"].clone()).collect();
    assert_eq!(ids, ["base", "lora-a", "lora-b"]);
    assert_eq!(answer.json()["object"], "list");
    assert_eq!(engines[0].only().header("authorization"), ["Bearer k"]);
    assert_eq!(engines[3].count(), 0);
    for endpoint in &fleet.endpoints[..2] {
        endpoint.health.set(Condition::Drained, Some("by hand".into()), &*gateway.pool.clock);
    }
    assert_eq!(gateway.ask(get("/v1/models")).await.status(), 503, "only the silent one is left");
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_request_at_the_engine() {
    for begun in [true, false] {
        let engine =
            Engine::start(move |_| Reply::Hang(if begun { [SSE, &chunk("data: 1\n\n")].concat() } else { vec![] }))
                .await;
        let gateway = Running::start(&[engine.address], no_ejection()).await;
        let mut client = gateway.client().await;
        client.send(chat("x")).await;
        eventually("the request arrives", || engine.count() == 1).await;
        if begun {
            client.until("data: 1").await;
        }
        drop(client);
        eventually("the engine sees it", || engine.left.load(Ordering::SeqCst) == 1).await;
        gateway.settled().await;
        assert_eq!(gateway.records()[0]["outcome"]["ended"], "client-disconnect");
    }
}

#[tokio::test]
async fn shutdown_lets_running_streams_finish_and_takes_no_new_connections() {
    let engine = Engine::start(|_| {
        let parts = (0..5).map(|i| chunk(format!("data: {i}\n\n")));
        let parts = std::iter::once(SSE.to_vec()).chain(parts).chain([b"0\r\n\r\n".to_vec()]);
        Reply::Slowly(parts.collect(), Duration::from_millis(60))
    })
    .await;
    let mut gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let mut idle = gateway.client().await;
    idle.send(get("/healthz")).await;
    assert_eq!(idle.answer().await.unwrap().status(), 200);
    let mut client = gateway.client().await;
    client.send(chat("x")).await;
    client.until("data: 0").await;
    gateway.stop();
    let answer = client.answer().await.unwrap();
    assert!(answer.body().ends_with(b"data: 4\n\n"));
    assert_eq!(idle.rest().await, "");
    tokio::time::timeout(SOON, &mut gateway.task).await.expect("it ends").unwrap();
    assert!(tokio::net::TcpStream::connect(gateway.address).await.is_err());
    assert_eq!(gateway.records()[0]["outcome"]["ended"], "natural");
}

#[tokio::test]
async fn br_33_a_request_that_comes_after_the_drain_began_is_told_so_and_routed_nowhere() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let mut gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    // Both connections are open, and neither has a request on it yet.
    let (mut late, mut probe) = (gateway.client().await, gateway.client().await);
    late.send("POST /v1/chat").await;
    probe.send("GET /rea").await;
    eventually("both are being served", || gateway.page().contains("pointsman_gateway_connections 2")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    gateway.stop();
    eventually("the drain begins", || std::net::TcpStream::connect(gateway.address).is_err()).await;
    probe.send("dyz HTTP/1.1\r\nhost: g\r\n\r\n").await;
    let unready = probe.answer().await.unwrap();
    assert_eq!((unready.status(), &*unready.raw), (503, &b"shutting down\n"[..]));
    late.send(&chat("x")["POST /v1/chat".len()..]).await;
    let answer = late.answer().await.unwrap();
    assert_eq!((answer.status(), answer.header(DROP_REASON)), (503, Some("rejected-shutting-down")));
    assert_eq!(answer.header("connection"), Some("close"));
    assert_eq!(answer.json()["error"]["code"], 503);
    assert_eq!(late.rest().await, "", "the connection ends");
    tokio::time::timeout(SOON, &mut gateway.task).await.expect("it ends").unwrap();
    assert_eq!((engine.count(), gateway.records().len()), (0, 0));
    assert!(gateway.page().contains(r#"pointsman_gateway_refusals_total{reason="shutting_down"} 1"#));
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_cut_and_recorded_as_such() {
    for begun in [true, false] {
        let engine =
            Engine::start(move |_| Reply::Hang(if begun { [SSE, &chunk("data: 1\n\n")].concat() } else { vec![] }))
                .await;
        let options = GatewayOptions { drain_timeout: Duration::from_millis(100), ..no_ejection() };
        let mut gateway = Running::start(&[engine.address], options).await;
        let mut client = gateway.client().await;
        client.send(chat("x")).await;
        eventually("the request arrives", || engine.count() == 1).await;
        gateway.stop();
        tokio::time::timeout(SOON, &mut gateway.task).await.expect("it ends").unwrap();
        client.rest().await;
        gateway.settled().await;
        assert_eq!(gateway.records()[0]["outcome"]["ended"], "shutdown");
    }
}

#[tokio::test]
async fn an_endpoint_that_leaves_takes_its_connections_along() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    assert_eq!(gateway.ask(chat("x")).await.status(), 200);
    let name = gateway.pool.fleet.snapshot().endpoints[0].name().clone();
    gateway.pool.fleet.remove(&name);
    let answer = gateway.ask(chat("x")).await;
    assert_eq!((answer.status(), answer.header(DROP_REASON)), (503, Some("rejected-no-endpoints")));
}
