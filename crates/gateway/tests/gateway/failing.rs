//! Engines that fail.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::support::*;
use pointsman_fleet::Condition;
use pointsman_gateway::{EjectionOptions, GatewayOptions};

/// An address where nobody listens.
async fn nobody() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn an_engine_that_cannot_be_reached_is_replaced_by_the_next_best() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let dead = nobody().await;
    let gateway = Running::start(&[dead, engine.address], no_ejection()).await;
    for i in 0..40 {
        let answer = gateway.ask(chat(&format!("unrelated {i}"))).await;
        assert_eq!((answer.status(), answer.header("x-pointsman-endpoint")), (200, Some("e1")));
    }
    gateway.settled().await;
    let retried: Vec<_> = gateway.records().into_iter().filter(|r| r["outcome"]["retries"] != 0).collect();
    assert!(!retried.is_empty(), "the dead engine was never chosen first");
    for record in retried {
        let outcome = &record["outcome"];
        assert_eq!(outcome["retries"], 1);
        assert_eq!(outcome["retried"][0]["endpoint"], dead.to_string());
        assert_eq!(outcome["endpoint"], engine.address.to_string());
        assert_eq!(outcome["status"], 200);
    }
}

#[tokio::test]
async fn a_reset_before_the_response_is_retried_elsewhere() {
    let bad = Engine::start(|_| Reply::Reset(Vec::new())).await;
    let good = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[bad.address, good.address], no_ejection()).await;
    let mut asked = 0;
    while bad.count() == 0 {
        asked += 1;
        assert_eq!(gateway.ask(chat(&format!("unrelated {asked}"))).await.status(), 200);
    }
    assert_eq!(good.count(), asked);
    assert_eq!(good.received.lock().last().unwrap().body, bad.only().body, "the same body again");
}

#[tokio::test]
async fn a_head_that_breaks_off_counts_as_no_response() {
    let bad = Engine::start(|_| Reply::Close(b"HTTP/1.1 200 OK\r\ncontent-ty".to_vec())).await;
    let gateway = Running::start(&[bad.address], no_ejection()).await;
    let answer = gateway.ask(chat("x")).await;
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.json()["error"]["type"], "InternalServerError");
}

#[tokio::test]
async fn when_nobody_is_left_the_answer_is_502_and_names_the_engine() {
    let (a, b) = (nobody().await, nobody().await);
    let gateway = Running::start(&[a, b], no_ejection()).await;
    let answer = gateway.ask(chat("x")).await;
    assert_eq!(answer.status(), 502);
    let error = answer.json();
    let message = error["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("engine e") && message.contains("refused"), "{message}");
    assert_eq!((&error["error"]["code"], &error["error"]["param"]), (&502.into(), &serde_json::Value::Null));
    gateway.settled().await;
    let record = &gateway.records()[0];
    assert_eq!(answer.header("x-pointsman-decision"), record["id"].as_str());
    assert_eq!(record["outcome"]["status"], 502);
    assert_eq!(record["outcome"]["error"], message);
}

#[tokio::test]
async fn no_more_endpoints_are_tried_than_allowed() {
    let engines = [nobody().await, nobody().await, nobody().await, nobody().await];
    for retries in [0, 1, 2] {
        let gateway = Running::start(&engines, GatewayOptions { retries, ..no_ejection() }).await;
        assert_eq!(gateway.ask(chat("x")).await.status(), 502);
        assert_eq!(gateway.records()[0]["outcome"]["retries"], retries);
    }
}

#[tokio::test]
async fn a_connection_that_died_of_age_is_not_held_against_its_engine() {
    // Answers one request per connection and then resets it, whenever the second arrives.
    let engine = Engine::start(|r| {
        if r.head.contains("x-second") { Reply::Reset(Vec::new()) } else { Reply::Write(ok("application/json", "{}")) }
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions { retries: 0, ..no_ejection() }).await;
    assert_eq!(gateway.ask(chat("first")).await.status(), 200);
    // On the kept connection it is reset; on a fresh one as well, so it fails: once more, and not for ever.
    assert_eq!(gateway.ask(post_with("/v1/chat/completions", "x-second: 1\r\n", chat_body("y"))).await.status(), 502);
    let connections: Vec<usize> = engine.received.lock().iter().map(|r| r.connection).collect();
    assert_eq!(connections, [0, 0, 1]);
    // An engine that closes its idle connections is no failure at all.
    let closing = Engine::start(|_| Reply::Close(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[closing.address], GatewayOptions { retries: 0, ..GatewayOptions::default() }).await;
    for i in 0..20 {
        assert_eq!(gateway.ask(chat(&format!("{i}"))).await.status(), 200);
    }
}

#[tokio::test]
async fn an_engine_that_never_answers_gives_504_and_no_second_try() {
    let (a, b) = (Engine::start(|_| Reply::Hang(Vec::new())).await, Engine::start(|_| Reply::Hang(Vec::new())).await);
    let options = GatewayOptions { response_header_timeout: Duration::from_millis(100), ..no_ejection() };
    let gateway = Running::start(&[a.address, b.address], options).await;
    let answer = gateway.ask(chat("x")).await;
    assert_eq!(answer.status(), 504);
    assert_eq!(a.count() + b.count(), 1);
    gateway.settled().await;
}

#[tokio::test]
async fn an_event_stream_that_breaks_ends_with_an_error_event() {
    for whole in [true, false] {
        let engine = Engine::start(move |_| {
            let part = if whole { "data: {\"n\":1}\n\n" } else { "data: {\"n\":1}\n\ndata: {\"n" };
            Reply::Reset([SSE, &chunk(part)].concat())
        })
        .await;
        let gateway = Running::start(&[engine.address], no_ejection()).await;
        let answer = gateway.ask(chat("x")).await;
        let body = String::from_utf8(answer.body()).unwrap();
        let (before, event) = body.rsplit_once("\n\ndata: ").unwrap();
        assert_eq!(before, if whole { "data: {\"n\":1}" } else { "data: {\"n\":1}\n\ndata: {\"n" });
        let event: serde_json::Value = serde_json::from_str(event.strip_suffix("\n\n").unwrap()).unwrap();
        let message = event["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("engine e0 failed after the response had begun: "), "{message}");
        assert_eq!((&event["error"]["type"], &event["error"]["code"]), (&"ModelServerError".into(), &502.into()));
        gateway.settled().await;
        let outcome = &gateway.records()[0]["outcome"];
        assert_eq!((&outcome["ended"], &outcome["error"]), (&"error".into(), &message.into()));
    }
}

#[tokio::test]
async fn a_messages_stream_that_breaks_says_so_in_its_own_words() {
    let engine = Engine::start(|_| Reply::Reset([SSE, &chunk("event: ping\ndata: {}\n\n")].concat())).await;
    let gateway = Running::start(&[engine.address], no_ejection()).await;
    let body = r#"{"model":"m","max_tokens":5,"stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
    let answer = gateway.ask(post("/v1/messages", body)).await;
    let body = String::from_utf8(answer.body()).unwrap();
    let event = body.strip_prefix("event: ping\ndata: {}\n\nevent: error\ndata: ").expect(&body);
    let event: serde_json::Value = serde_json::from_str(event.trim_end()).unwrap();
    assert_eq!((&event["type"], &event["error"]["type"]), (&"error".into(), &"api_error".into()));
}

#[tokio::test]
async fn any_other_body_that_breaks_is_left_incomplete_and_never_silently_short() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    let chunked = [format!("{head}transfer-encoding: chunked\r\n\r\n").as_bytes(), &chunk("{\"half\":")].concat();
    let known = format!("{head}content-length: 20\r\n\r\n{{\"half\":").into_bytes();
    let coded = [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n",
        &chunk("half")[..],
    ]
    .concat();
    for bytes in [chunked, known, coded] {
        let engine = Engine::start(move |_| Reply::Reset(bytes.clone())).await;
        let gateway = Running::start(&[engine.address], no_ejection()).await;
        let mut client = gateway.client().await;
        client.send(chat("x")).await;
        let all = client.rest().await;
        assert!(all.starts_with("HTTP/1.1 200 OK"), "{all}");
        assert!(!all.ends_with("0\r\n\r\n") && !all.contains("error"), "{all}");
        gateway.settled().await;
        assert_eq!(gateway.records()[0]["outcome"]["ended"], "error");
        assert_eq!(engine.count(), 1, "nothing is retried after the first byte");
    }
}

#[tokio::test]
async fn silence_inside_a_response_ends_it() {
    let engine = Engine::start(|_| Reply::Hang([SSE, &chunk("data: 1\n\n")].concat())).await;
    let options = GatewayOptions { response_idle_timeout: Duration::from_millis(100), ..no_ejection() };
    let gateway = Running::start(&[engine.address], options).await;
    let answer = gateway.ask(chat("x")).await;
    assert!(String::from_utf8(answer.body()).unwrap().contains("nothing came for"), "{answer:?}");
    eventually("the engine sees it", || engine.left.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
}

#[tokio::test]
async fn an_engine_that_dies_under_load_is_out_at_once_and_back_by_itself() {
    let script = |r: &Received| {
        let _ = r;
        Reply::Slowly(vec![ok("application/json", r#"{"ok":1}"#)], Duration::from_millis(1))
    };
    let mut engines = [Engine::start(script).await, Engine::start(script).await];
    let addresses = [engines[0].address, engines[1].address];
    let gateway = std::sync::Arc::new(Running::start(&addresses, GatewayOptions::default()).await);
    let endpoint = std::sync::Arc::clone(&gateway.pool.fleet.snapshot().endpoints[0]);
    let (start, mut sent) = (Instant::now(), Vec::new());
    let (mut killed, mut out, mut listens, mut back) = (None, None, None, None);
    // 200 requests a second for three seconds.
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    for i in 0..600 {
        ticks.tick().await;
        let gateway = std::sync::Arc::clone(&gateway);
        sent.push(tokio::spawn(async move { gateway.ask(chat(&format!("number {i}"))).await.status() }));
        if killed.is_none() && start.elapsed() > Duration::from_millis(500) {
            engines[0].kill();
            killed = Some(Instant::now());
        }
        if out.is_none() && !endpoint.ready() {
            out = Some(Instant::now());
        }
        if listens.is_none() && killed.is_some_and(|k| k.elapsed() > Duration::from_millis(700)) {
            engines[0] = Engine::start_at(addresses[0], script).await;
            listens = Some(Instant::now());
        }
        if listens.is_some() && back.is_none() && endpoint.ready() && engines[0].count() > 3 {
            back = Some(Instant::now());
        }
    }
    for answer in sent {
        assert_eq!(answer.await.unwrap(), 200, "no client notices");
    }
    let out = out.expect("it was out") - killed.unwrap();
    let back = back.expect("it was back") - listens.unwrap();
    assert!(out < Duration::from_secs(1), "out after {out:?}");
    assert!(back < Duration::from_millis(1_500), "back after {back:?}");
    gateway.settled().await;
}

#[tokio::test]
async fn five_bad_answers_in_a_row_put_an_endpoint_aside() {
    let bad = Engine::start(|_| Reply::Write(status("503 Service Unavailable", "text/plain", "down"))).await;
    let good = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let ejection = EjectionOptions { base: Duration::from_secs(60), ..EjectionOptions::default() };
    let options = GatewayOptions { ejection, ..GatewayOptions::default() };
    let gateway = Running::start(&[bad.address, good.address], options).await;
    let endpoint = std::sync::Arc::clone(&gateway.pool.fleet.snapshot().endpoints[0]);
    for i in 0.. {
        if !endpoint.ready() {
            break;
        }
        assert!(i < 500, "never ejected");
        gateway.ask(chat(&format!("unrelated {i}"))).await;
    }
    assert_eq!(bad.count(), 5);
    assert!(endpoint.health.reason(Condition::Ejected).unwrap().contains("status 503"));
    for i in 0..20 {
        assert_eq!(gateway.ask(chat(&format!("later {i}"))).await.status(), 200);
    }
    assert_eq!(bad.count(), 5);
    assert!(gateway.page().contains("pointsman_gateway_ejections_total 1"));
}
