//! Every bound has a clear answer.

use std::time::Duration;

use crate::support::*;
use pointsman_core::headers::DROP_REASON;
use pointsman_gateway::GatewayOptions;

async fn engine() -> Engine {
    Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await
}

#[tokio::test]
async fn a_body_longer_than_allowed_is_413_before_it_is_read() {
    let engine = engine().await;
    let options = GatewayOptions { max_body_bytes: 1_000, ..GatewayOptions::default() };
    let gateway = Running::start(&[engine.address], options).await;
    let mut client = gateway.client().await;
    client.send("POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 1001\r\n\r\n").await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.status(), answer.header(DROP_REASON)), (413, None));
    assert_eq!(answer.json()["error"]["code"], 413);
    assert!(answer.json()["error"]["message"].as_str().unwrap().contains("1000 bytes"), "{:?}", answer.json());
    // Of unknown length: when it is too much.
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n";
    let request = [head.as_bytes(), &chunk(vec![b' '; 900]), &chunk(vec![b' '; 101]), b"0\r\n\r\n"].concat();
    assert_eq!(gateway.ask(request).await.status(), 413);
    assert_eq!(engine.count(), 0);
    // The limit itself is allowed.
    let mut body = chat_body("x");
    body.push_str(&" ".repeat(1_000 - body.len()));
    assert_eq!(gateway.ask(post("/v1/chat/completions", body)).await.status(), 200);
    assert!(
        gateway.page().contains(r#"pointsman_gateway_refusals_total{reason="body_too_large"} 2"#),
        "{}",
        gateway.page()
    );
}

#[tokio::test]
async fn a_refused_client_gets_to_read_why_even_while_it_sends() {
    let engine = engine().await;
    let options = GatewayOptions { max_body_bytes: 1_000, ..GatewayOptions::default() };
    let gateway = Running::start(&[engine.address], options).await;
    let answer = gateway.ask(post("/v1/chat/completions", vec![b' '; 3 << 20])).await;
    assert_eq!(answer.status(), 413);
}

#[tokio::test]
async fn request_bytes_beyond_the_budget_are_503_and_given_back_at_the_end() {
    let engine = Engine::start(|_| Reply::Slowly(vec![ok("application/json", "{}")], Duration::from_millis(1))).await;
    let options = GatewayOptions { buffer_budget_bytes: 10_000, ..GatewayOptions::default() };
    let gateway = Running::start(&[engine.address], options).await;
    // One client holds 8,000 bytes and does not finish.
    let mut holding = gateway.client().await;
    let body = chat_body(&"a".repeat(8_000));
    let request = post("/v1/chat/completions", &body);
    holding.send(&request[..request.len() - 1]).await;
    eventually("the bytes are held", || !gateway.page().contains("pointsman_gateway_buffered_bytes 0")).await;
    let refused = gateway.ask(chat(&"b".repeat(8_000))).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("limit 10000"));
    assert_eq!(refused.header(DROP_REASON), Some("rejected-saturated"));
    holding.send(&request[request.len() - 1..]).await;
    assert_eq!(holding.answer().await.unwrap().status(), 200);
    eventually("nothing is held", || gateway.page().contains("pointsman_gateway_buffered_bytes 0")).await;
    assert_eq!(gateway.ask(chat(&"b".repeat(8_000))).await.status(), 200);
    assert!(gateway.page().contains(r#"pointsman_gateway_refusals_total{reason="buffer_budget"} 1"#));
}

#[tokio::test]
async fn a_client_that_leaves_in_its_body_holds_nothing() {
    let engine = engine().await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let mut client = gateway.client().await;
    let request = chat("never finished");
    client.send(&request[..request.len() - 1]).await;
    eventually("the bytes are held", || !gateway.page().contains("pointsman_gateway_buffered_bytes 0")).await;
    drop(client);
    eventually("nothing is held", || gateway.page().contains("pointsman_gateway_buffered_bytes 0")).await;
    assert_eq!(engine.count(), 0);
}

#[tokio::test]
async fn too_many_header_bytes_are_431() {
    let engine = engine().await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let headers = format!("x-large: {}\r\n", "a".repeat(70_000));
    assert!(gateway.ask(post_with("/v1/chat/completions", &headers, "{}")).await.head.contains("431"));
    let headers: String = (0..200).map(|i| format!("x-h{i}: 1\r\n")).collect();
    assert!(gateway.ask(post_with("/v1/chat/completions", &headers, "{}")).await.head.contains("431"));
    let headers = format!("x-large: {}\r\n", "a".repeat(40_000));
    assert_eq!(gateway.ask(post_with("/v1/chat/completions", &headers, chat_body("x"))).await.status(), 200);
    assert_eq!(engine.count(), 1);
}

/// The same number whichever HTTP is spoken. Only what was understood as a request can be told more than the status.
#[tokio::test]
async fn more_than_a_hundred_header_lines_are_431() {
    use http_body_util::{BodyExt, Full};
    let engine = engine().await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    // Host, type and length make it 100.
    let lines = |n: usize| (3..n).map(|i| format!("x-h{i}: 1\r\n")).collect::<String>();
    let path = "/v1/chat/completions";
    assert_eq!(gateway.ask(post_with(path, &lines(100), chat_body("x"))).await.status(), 200);
    let refused = gateway.ask(post_with(path, &lines(101), chat_body("x"))).await;
    assert_eq!((refused.status(), refused.body().len()), (431, 0));

    let io = hyper_util::rt::TokioIo::new(tokio::net::TcpStream::connect(gateway.address).await.unwrap());
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    for (lines, status) in [(99, 200), (101, 431)] {
        let mut request = hyper::Request::post(format!("http://gateway{path}"));
        for i in 0..lines {
            request = request.header(format!("x-h{i}"), "1");
        }
        let body = Full::new(bytes::Bytes::from(chat_body("x")));
        let answer = sender.send_request(request.body(body).unwrap()).await.unwrap();
        assert_eq!(answer.status(), status, "{lines}");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(status == 200 || String::from_utf8_lossy(&body).contains("header lines"), "{body:?}");
    }
    assert_eq!(engine.count(), 2);
    assert!(gateway.page().contains(r#"pointsman_gateway_refusals_total{reason="too_many_headers"} 1"#));
}

#[tokio::test]
async fn what_is_not_http_is_400() {
    let engine = engine().await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    assert!(gateway.ask("NOT HTTP AT ALL\r\n\r\n").await.head.starts_with("HTTP/1.1 400"));
    let smuggled = "POST / HTTP/1.1\r\nhost: g\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd";
    assert!(gateway.ask(smuggled).await.head.starts_with("HTTP/1.1 400"));
    assert_eq!(engine.count(), 0);
}

#[tokio::test]
async fn a_slow_head_is_cut_and_a_slow_body_is_408() {
    let engine = engine().await;
    let options = GatewayOptions {
        header_read_timeout: Duration::from_millis(100),
        body_read_timeout: Duration::from_millis(100),
        ..GatewayOptions::default()
    };
    let gateway = Running::start(&[engine.address], options).await;
    let mut silent = gateway.client().await;
    assert_eq!(silent.rest().await, "");
    let mut client = gateway.client().await;
    client.send("POST /v1/chat/com").await;
    assert_eq!(client.rest().await, "");
    let request = chat("slow");
    let mut client = gateway.client().await;
    client.send(&request[..request.len() - 5]).await;
    let answer = client.answer().await.unwrap();
    assert_eq!((answer.status(), answer.header(DROP_REASON)), (408, None));
    assert!(gateway.page().contains(r#"pointsman_gateway_refusals_total{reason="body_timeout"} 1"#));
    // Idle between requests is not slow.
    let mut client = gateway.client().await;
    client.send(&request).await;
    assert_eq!(client.answer().await.unwrap().status(), 200);
    tokio::time::sleep(Duration::from_millis(400)).await;
    client.send(&request).await;
    assert_eq!(client.answer().await.unwrap().status(), 200);
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_its_time() {
    let engine = engine().await;
    let options = GatewayOptions { keep_alive_timeout: Duration::from_millis(100), ..GatewayOptions::default() };
    let gateway = Running::start(&[engine.address], options).await;
    let mut client = gateway.client().await;
    client.send(chat("x")).await;
    assert_eq!(client.answer().await.unwrap().status(), 200);
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let engine = engine().await;
    let gateway =
        Running::start(&[engine.address], GatewayOptions { max_connections: 1, ..GatewayOptions::default() }).await;
    let mut first = gateway.client().await;
    first.send(chat("first")).await;
    assert_eq!(first.answer().await.unwrap().status(), 200);
    let mut second = gateway.client().await;
    second.send(chat("second")).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(engine.count(), 1);
    drop(first);
    assert_eq!(second.answer().await.unwrap().status(), 200);
}
