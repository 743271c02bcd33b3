//! What passes, passes as it is.

use std::io::Write;
use std::time::Duration;

use crate::support::*;
use pointsman_gateway::GatewayOptions;

#[tokio::test]
async fn br_01_a_chat_request_is_routed_and_its_body_arrives_byte_for_byte() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", r#"{"ok":1}"#))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let body = "{ \"model\":\"acme-chat\",\n\"temperature\":0,\"messages\":[{\"role\":\"user\",\"content\":\"who are you\"}] }";
    let answer = gateway.ask(post("/v1/chat/completions?trace=1", body)).await;
    assert_eq!((answer.status(), &answer.body()[..]), (200, &br#"{"ok":1}"#[..]));
    assert_eq!(answer.header("x-pointsman-endpoint"), Some("e0"));
    let received = engine.only();
    assert_eq!(received.body, body.as_bytes());
    assert!(received.head.starts_with("POST /v1/chat/completions?trace=1 HTTP/1.1"), "{}", received.head);
    assert_eq!(received.header("host"), [engine.address.to_string()]);
    assert_eq!(received.header("content-length"), [body.len().to_string()]);
    assert_eq!(received.header("x-request-id").len(), 1);
    let record = &gateway.records()[0];
    assert_eq!(answer.header("x-pointsman-decision"), record["id"].as_str());
    assert_eq!(record["path"], "/v1/chat/completions");
    assert_eq!(record["request_id"], received.header("x-request-id")[0]);
    gateway.settled().await;
    assert_eq!(gateway.records()[0]["outcome"]["status"], 200);
}

#[tokio::test]
async fn br_02_explicit_nulls_are_routed_and_forwarded_as_received() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let body = r#"{"model":"acme-chat","messages":[{"role":"user","content":"hi"}],"max_tokens":null,"stop":null,"stop_token_ids":null,
 "cache_salt":null,"stream":null,"stream_options":{"include_usage":null}}"#;
    assert_eq!(gateway.ask(post("/v1/chat/completions", body)).await.status(), 200);
    assert_eq!(engine.only().body, body.as_bytes());
}

#[tokio::test]
async fn br_15_forged_routing_headers_reach_neither_engine_nor_client_nor_decision() {
    let engine = Engine::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nx-pointsman-endpoint: forged\r\nx-pointsman-decision: forged\r\ncontent-length: 0\r\n\r\n";
        Reply::Write(head.into())
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let mut forged = String::new();
    for name in pointsman_core::headers::CONTROL {
        forged.push_str(&format!("{name}: 10.9.9.9:1\r\n{}: second\r\n", name.to_ascii_uppercase()));
    }
    // Wishes that would change what is decided.
    let forged: String =
        forged.lines().filter(|l| !l.to_lowercase().contains("rewrite")).map(|l| format!("{l}\r\n")).collect();
    let answer = gateway.ask(post_with("/v1/chat/completions", &forged, chat_body("x"))).await;
    assert_eq!(answer.status(), 200, "{}", answer.head);
    assert_eq!(answer.header("x-pointsman-endpoint"), Some("e0"));
    assert_ne!(answer.header("x-pointsman-decision"), Some("forged"));
    let received = engine.only();
    for name in pointsman_core::headers::CONTROL {
        assert!(received.header(name).is_empty(), "{name} in {}", received.head);
    }
    assert!(!received.head.contains("10.9.9.9"), "{}", received.head);
}

#[tokio::test]
async fn br_17_each_event_passes_at_once_with_the_same_bytes() {
    let events = [
        "data: {\"choices\":[{\"text\":\"把\"}]}\n\n",
        "data: {\"choices\":[{\"text\":\"酒\"}]}\n\n",
        "data: [DONE]\n\n",
    ];
    let engine = Engine::start(move |_| {
        let mut parts = vec![SSE.to_vec()];
        parts.extend(events.iter().map(chunk));
        parts.push(b"0\r\n\r\n".to_vec());
        Reply::Slowly(parts, Duration::from_millis(150))
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let mut client = gateway.client().await;
    client.send(post("/v1/completions", r#"{"model":"acme","prompt":"明月几时有","stream":true}"#)).await;
    let start = std::time::Instant::now();
    for (i, event) in events.iter().enumerate() {
        client.until(event).await;
        let late = start.elapsed();
        assert!(late < Duration::from_millis(150 * (i as u64 + 1) + 140), "event {i} after {late:?}");
    }
    let answer = client.answer().await.unwrap();
    assert_eq!(String::from_utf8(answer.body()).unwrap(), events.concat());
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    gateway.settled().await;
    assert_eq!(gateway.records()[0]["outcome"]["error"], serde_json::Value::Null);
}

#[tokio::test]
async fn br_22_a_plain_text_error_passes_with_its_status() {
    let engine =
        Engine::start(|_| Reply::Write(status("503 Service Unavailable", "text/plain", "no healthy upstream"))).await;
    let gateway = Running::start(&[engine.address], no_ejection()).await;
    let answer = gateway.ask(chat("x")).await;
    assert_eq!((answer.status(), &answer.body()[..]), (503, &b"no healthy upstream"[..]));
    assert_eq!(answer.header("content-type"), Some("text/plain"));
    assert_eq!(engine.count(), 1, "an answer is not retried");
    gateway.settled().await;
    assert_eq!(gateway.records()[0]["outcome"]["status"], 503);
    let page = gateway.page();
    assert!(page.contains("ModelServerError"), "{page}");
}

fn gzip(text: &str) -> Vec<u8> {
    let mut coder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    coder.write_all(text.as_bytes()).unwrap();
    coder.finish().unwrap()
}

#[tokio::test]
async fn br_23_a_compressed_response_passes_unchanged_and_its_usage_is_read() {
    let coded = gzip(
        r#"{"choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":8}}}"#,
    );
    let reply = coded.clone();
    let engine = Engine::start(move |_| {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
            reply.len()
        );
        Reply::Write([head.as_bytes(), &reply].concat())
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let answer = gateway.ask(chat("x")).await;
    assert_eq!(answer.body(), coded);
    assert_eq!(answer.header("content-encoding"), Some("gzip"));
    gateway.settled().await;
    assert_eq!(gateway.records()[0]["outcome"]["cached_tokens"], 8);
}

#[tokio::test]
async fn a_gzip_request_is_inspected_and_forwarded_as_received() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let coded = gzip(&chat_body(&"words ".repeat(400)));
    let answer = gateway.ask(post_with("/v1/chat/completions", "content-encoding: gzip\r\n", &coded)).await;
    assert_eq!(answer.status(), 200);
    let received = engine.only();
    assert_eq!(received.body, coded);
    assert_eq!(received.header("content-encoding"), ["gzip"]);
    assert_eq!(gateway.records()[0]["model"], "m");
    assert!(gateway.records()[0]["prompt_tokens_estimated"].as_u64().unwrap() > 500);
}

#[tokio::test]
async fn a_chunked_request_is_forwarded_with_one_length_and_without_its_trailers() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let body = chat_body("in pieces");
    let (a, b) = body.as_bytes().split_at(20);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n";
    let request = [head.as_bytes(), &chunk(a), &chunk(b), b"0\r\nx-sum: 7\r\n\r\n"].concat();
    assert_eq!(gateway.ask(request).await.status(), 200);
    let received = engine.only();
    assert_eq!(received.body, body.as_bytes());
    assert_eq!(received.header("content-length"), [body.len().to_string()]);
    for name in ["transfer-encoding", "trailer", "x-sum"] {
        assert!(received.header(name).is_empty(), "{name}");
    }
}

#[tokio::test]
async fn hop_by_hop_headers_end_here_in_both_directions() {
    let engine = Engine::start(|_| {
        let head = "HTTP/1.1 200 OK\r\nconnection: keep-alive, x-hop\r\nkeep-alive: timeout=5\r\nx-hop: 1\r\n\
                    proxy-authenticate: Basic\r\nx-end: 2\r\ncontent-length: 2\r\n\r\nok";
        Reply::Write(head.into())
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let headers = "connection: x-mine\r\nx-mine: 1\r\nte: gzip\r\nproxy-authorization: Basic x\r\nupgrade: h2c\r\n\
                   authorization: Bearer k\r\nx-request-id: my-id\r\n";
    let answer = gateway.ask(post_with("/v1/chat/completions", headers, chat_body("x"))).await;
    assert_eq!((answer.header("x-end"), answer.header("x-hop")), (Some("2"), None));
    assert_eq!((answer.header("keep-alive"), answer.header("proxy-authenticate")), (None, None));
    let received = engine.only();
    for name in ["connection", "x-mine", "te", "proxy-authorization", "upgrade"] {
        assert!(received.header(name).is_empty(), "{name}");
    }
    assert_eq!(received.header("authorization"), ["Bearer k"]);
    assert_eq!(received.header("x-request-id"), ["my-id"]);
}

#[tokio::test]
async fn trailers_of_a_response_pass() {
    let engine = Engine::start(|_| {
        let head = "HTTP/1.1 200 OK\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n";
        Reply::Write([head.as_bytes(), &chunk("body"), b"0\r\nx-sum: 7\r\n\r\n"].concat())
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let answer = gateway.ask(post_with("/v1/chat/completions", "te: trailers\r\n", chat_body("x"))).await;
    assert!(answer.raw.ends_with(b"0\r\nx-sum: 7\r\n\r\n"), "{:?}", String::from_utf8_lossy(&answer.raw));
    assert_eq!(engine.only().header("te"), ["trailers"]);
}

#[tokio::test]
async fn expect_100_continue_is_answered_here() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let request = post_with("/v1/chat/completions", "expect: 100-continue\r\n", chat_body("x"));
    let head = request.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let mut client = gateway.client().await;
    client.send(&request[..head]).await;
    client.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    client.buffer.clear();
    client.send(&request[head..]).await;
    assert_eq!(client.answer().await.unwrap().status(), 200);
    assert!(engine.only().header("expect").is_empty());
}

#[tokio::test]
async fn connections_on_both_sides_are_kept() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let mut client = gateway.client().await;
    for i in 0..5 {
        client.send(chat(&format!("request {i}"))).await;
        assert_eq!(client.answer().await.unwrap().status(), 200);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(engine.received.lock().iter().all(|r| r.connection == 0));
}

#[tokio::test]
async fn requests_without_a_body_go_the_same_way() {
    let engine = Engine::start(|r| {
        if r.head.starts_with("HEAD") {
            Reply::Write(b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n".to_vec())
        } else {
            Reply::Write(ok("text/plain", "0.9.1"))
        }
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let answer = gateway.ask("GET /version HTTP/1.1\r\nhost: g\r\n\r\n").await;
    assert_eq!((answer.status(), &answer.body()[..]), (200, &b"0.9.1"[..]));
    assert!(engine.only().header("content-length").is_empty());
    let mut client = gateway.client().await;
    client.send("HEAD /version HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n").await;
    let head = client.rest().await;
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.ends_with("\r\n\r\n"), "{head}");
    gateway.settled().await;
    assert!(gateway.records().iter().all(|r| r["outcome"]["status"] == 200));
}

#[tokio::test]
async fn http2_without_tls_is_spoken_too() {
    use http_body_util::{BodyExt, Full};
    let engine = Engine::start(|r| {
        let seen = String::from_utf8_lossy(&r.body).into_owned();
        Reply::Write([SSE, &chunk(format!("data: {seen}\n\n")), b"0\r\n\r\n"].concat())
    })
    .await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let stream = tokio::net::TcpStream::connect(gateway.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let requests = (0..10).map(|i| {
        let body = Full::new(bytes::Bytes::from(chat_body(&format!("request {i}"))));
        let request = hyper::Request::post("http://gateway/v1/chat/completions").body(body).unwrap();
        sender.send_request(request)
    });
    let answers = futures_util::future::join_all(requests.collect::<Vec<_>>()).await;
    for (i, answer) in answers.into_iter().enumerate() {
        let answer = answer.unwrap();
        assert_eq!(answer.version(), hyper::Version::HTTP_2);
        assert_eq!(answer.headers()["x-pointsman-endpoint"], "e0");
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(String::from_utf8_lossy(&body).contains(&format!("request {i}")), "{body:?}");
    }
}

#[tokio::test]
async fn decision_headers_can_be_switched_off() {
    let engine = Engine::start(|_| Reply::Write(ok("application/json", "{}"))).await;
    let options = GatewayOptions { decision_headers: false, ..GatewayOptions::default() };
    let gateway = Running::start(&[engine.address], options).await;
    let answer = gateway.ask(chat("x")).await;
    assert!(!answer.head.contains("x-pointsman"), "{}", answer.head);
}
