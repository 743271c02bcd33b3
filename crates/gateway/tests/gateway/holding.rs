//! Clients that hold on to what they have no use for are held to an end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::support::*;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use pointsman_gateway::GatewayOptions;
use tokio::net::TcpStream;

const MOMENT: Duration = Duration::from_millis(150);
const CHUNKED: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n";
/// More than all buffers between an engine and a client take.
const MUCH: usize = 48 << 20;

fn held(gateway: &Running) -> usize {
    let page = gateway.page();
    let line = page.lines().find_map(|l| l.strip_prefix("pointsman_gateway_buffered_bytes ")).unwrap();
    line.parse().unwrap()
}

/// An HTTP/2 frame.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = payload.len() as u8;
    [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
}

/// What an HTTP/2 client says first: preface and settings.
fn hello() -> Vec<u8> {
    [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(4, 0, 0, &[])].concat()
}

/// A whole GET on stream 1: method and scheme of the static table, path and authority as they are.
fn get(path: &str) -> Vec<u8> {
    let literal = |index: u8, text: &str| [&[index, text.len() as u8], text.as_bytes()].concat();
    frame(1, 0x5, 1, &[vec![0x82, 0x86], literal(4, path), literal(1, "g")].concat())
}

#[tokio::test]
async fn a_long_response_does_not_hold_the_budget_for_its_request() {
    let engine = Engine::start(|_| Reply::Hang([SSE, &chunk("data: 1\n\n")].concat())).await;
    let options = GatewayOptions { buffer_budget_bytes: 10_000, ..no_ejection() };
    let gateway = Running::start(&[engine.address], options).await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = gateway.client().await;
        client.send(chat(&"a".repeat(8_000))).await;
        client.until("data: 1").await;
        eventually("nothing is held", || held(&gateway) == 0).await;
        clients.push(client);
    }
}

#[tokio::test]
async fn a_body_in_crumbs_is_forwarded_as_it_is_and_costs_about_its_length() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let body = chat_body(&(0..40_000).map(|i| char::from(b'a' + (i % 23) as u8)).collect::<String>());
    let (crumbs, rest) = body.as_bytes().split_at(30_000);
    let (large, small) = rest.split_at(5_000);
    let mut client = gateway.client().await;
    let crumbs: Vec<u8> = crumbs.iter().flat_map(|byte| chunk([*byte])).collect();
    let small: Vec<u8> = small.chunks(7).flat_map(chunk).collect();
    client.send([CHUNKED.as_bytes(), &crumbs, &chunk(large), &small].concat()).await;
    eventually("all of it is held", || held(&gateway) >= body.len()).await;
    assert!(held(&gateway) < body.len() + 2_000, "{} for {}", held(&gateway), body.len());
    client.send("0\r\n\r\n").await;
    assert_eq!(client.answer().await.unwrap().status(), 200);
    let received = engine.only();
    assert_eq!(received.body, body.as_bytes());
    assert_eq!(received.header("content-length"), [body.len().to_string()]);
}

#[tokio::test]
async fn each_piece_of_a_body_costs_more_than_its_bytes() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let options = GatewayOptions { buffer_budget_bytes: 100_000, ..GatewayOptions::default() };
    let gateway = Running::start(&[engine.address], options).await;
    let body = chat_body(&"a".repeat(95_000));
    assert_eq!(gateway.ask(post("/v1/chat/completions", &body)).await.status(), 200);
    let pieces: Vec<u8> = body.as_bytes().chunks(1_024).flat_map(chunk).collect();
    assert_eq!(gateway.ask([CHUNKED.as_bytes(), &pieces, b"0\r\n\r\n"].concat()).await.status(), 503);
    eventually("nothing is held", || held(&gateway) == 0).await;
}

#[tokio::test]
async fn an_http2_connection_without_a_request_is_closed_like_any_other() {
    let gateway = Running::start(&[], GatewayOptions { header_read_timeout: MOMENT, ..no_ejection() }).await;
    for (begun, first) in [("PRI", b"PRI".to_vec()), ("the preface", hello()[..24].to_vec()), ("settings", hello())] {
        let (mut client, start) = (gateway.client().await, Instant::now());
        client.send(first).await;
        client.rest().await;
        assert!(start.elapsed() >= MOMENT, "{begun}: {:?}", start.elapsed());
    }
    eventually("all are closed", || gateway.page().contains("pointsman_gateway_connections 0")).await;
}

#[tokio::test]
async fn an_idle_http2_connection_that_does_not_go_when_asked_to_is_closed() {
    let options = GatewayOptions { header_read_timeout: MOMENT, keep_alive_timeout: MOMENT * 3, ..no_ejection() };
    let gateway = Running::start(&[], options).await;
    let (mut client, start) = (gateway.client().await, Instant::now());
    client.send([hello(), get("/healthz")].concat()).await;
    client.until("ok\n").await;
    // It acknowledges nothing, neither settings nor goodbye nor ping.
    client.rest().await;
    assert!(start.elapsed() >= MOMENT * 4, "{:?}", start.elapsed());
    assert!(client.buffer.windows(5).any(|w| w == [0, 8, 7, 0, 0]), "a goodbye (GOAWAY of 8 bytes) came first");
    eventually("it is closed", || gateway.page().contains("pointsman_gateway_connections 0")).await;
}

#[tokio::test]
async fn a_client_that_stops_reading_is_gone_after_a_while_and_its_engine_is_told() {
    let engine = Engine::start(|_| Reply::Slowly(vec![ok("text/plain", vec![b'a'; MUCH])], Duration::ZERO)).await;
    let options = GatewayOptions { response_idle_timeout: MOMENT, ..no_ejection() };
    let gateway = Running::start(&[engine.address], options).await;
    let mut client = gateway.client().await;
    client.send(chat("x")).await;
    client.until("HTTP/1.1 200 OK").await;
    eventually("the engine sees it", || engine.left.load(Ordering::SeqCst) == 1).await;
    gateway.settled().await;
    assert_eq!(gateway.records()[0]["outcome"]["ended"], "client-disconnect");
    eventually("it is closed", || gateway.page().contains("pointsman_gateway_connections 0")).await;
}

#[tokio::test]
async fn a_client_that_reads_slowly_gets_everything() {
    let engine = Engine::start(|_| Reply::Write(ok("text/plain", vec![b'a'; MUCH]))).await;
    let options = GatewayOptions { response_idle_timeout: MOMENT * 4, ..no_ejection() };
    let gateway = Running::start(&[engine.address], options).await;
    let mut client = gateway.client().await;
    client.send(chat("x")).await;
    for part in 1..8 {
        tokio::time::sleep(MOMENT).await;
        client.at_least(part * MUCH / 8).await;
    }
    assert_eq!(client.answer().await.unwrap().body().len(), MUCH);
    gateway.settled().await;
    assert_eq!(gateway.records()[0]["outcome"]["ended"], "natural");
}

#[tokio::test]
async fn an_http2_client_that_makes_no_room_for_a_response_loses_it_and_no_other() {
    let engine = Engine::start(|r| {
        if String::from_utf8_lossy(&r.body).contains("much") {
            Reply::Slowly(vec![ok("text/plain", vec![b'a'; MUCH])], Duration::ZERO)
        } else {
            Reply::Slowly([&[SSE.to_vec()], &vec![chunk("data\n\n"); 6][..], &[b"0\r\n\r\n".to_vec()]].concat(), MOMENT)
        }
    })
    .await;
    let options = GatewayOptions { response_idle_timeout: MOMENT * 4, ..no_ejection() };
    let gateway = Running::start(&[engine.address], options).await;
    let io = TokioIo::new(TcpStream::connect(gateway.address).await.unwrap());
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut sender, connection) = builder.initial_stream_window_size(10_000).handshake(io).await.unwrap();
    tokio::spawn(connection);
    let mut ask = |text: &str| {
        let body = Full::new(Bytes::from(chat_body(text)));
        sender.send_request(hyper::Request::post("http://g/v1/chat/completions").body(body).unwrap())
    };
    let (stalled, lively) = (ask("much").await.unwrap(), ask("little").await.unwrap());
    let lively = tokio::spawn(lively.into_body().collect());
    eventually("the engine sees it", || engine.left.load(Ordering::SeqCst) == 1).await;
    assert_eq!(lively.await.unwrap().unwrap().to_bytes(), "data\n\n".repeat(6));
    gateway.settled().await;
    assert!(stalled.into_body().collect().await.is_err(), "it was reset");
    assert_eq!(ask("little").await.unwrap().status(), 200, "the connection goes on");
    let ended: Vec<_> = gateway.records().iter().map(|r| r["outcome"]["ended"].clone()).collect();
    assert_eq!(ended[1..], ["natural", "client-disconnect"]);
}

#[tokio::test]
async fn an_http2_client_that_answers_no_ping_is_gone_after_a_while() {
    let engine = Engine::start(|_| Reply::Hang(Vec::new())).await;
    let options = GatewayOptions { response_idle_timeout: MOMENT, keep_alive_timeout: MOMENT, ..no_ejection() };
    let gateway = Running::start(&[engine.address], options).await;
    let mut client = gateway.client().await;
    client.send([hello(), get("/version")].concat()).await;
    eventually("the request arrives", || engine.count() == 1).await;
    client.rest().await;
    eventually("the engine sees it", || engine.left.load(Ordering::SeqCst) == 1).await;
    gateway.settled().await;
    assert_eq!(gateway.records()[0]["outcome"]["ended"], "client-disconnect");
}

#[tokio::test]
async fn one_silent_engine_of_many_hides_its_own_models_only() {
    let mut engines = vec![Engine::start(|_| Reply::Hang(Vec::new())).await];
    for i in 1..40 {
        let list = format!(r#"{{"object":"list","data":[{{"id":"base","of":{i}}},{{"id":"lora-{i}"}}]}}"#);
        engines.push(Engine::start(move |_| Reply::Write(ok("application/json", &list))).await);
    }
    let addresses: Vec<_> = engines.iter().map(|e| e.address).collect();
    let options = GatewayOptions { models_timeout: Duration::from_secs(1), ..GatewayOptions::default() };
    let gateway = Running::start(&addresses, options).await;
    let answer = gateway.ask("GET /v1/models HTTP/1.1\r\nhost: g\r\n\r\n").await.json();
    let listed = answer["data"].as_array().unwrap();
    let expected = std::iter::once("base".to_owned()).chain((1..40).map(|i| format!("lora-{i}")));
    assert_eq!(
        listed.iter().map(|m| m["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        expected.collect::<Vec<_>>()
    );
    assert_eq!(listed[0]["of"], 1, "as the first that answers describes it");
}
