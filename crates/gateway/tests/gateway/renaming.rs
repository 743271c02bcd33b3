//! A client reads the name of the model it asked for.

use std::time::Duration;

use crate::support::*;
use pointsman_gateway::GatewayOptions;

/// A request for `acme`, to be sent to `acme-v2-long`.
fn ask(stream: bool) -> Vec<u8> {
    let body = format!(r#"{{"model":"acme","prompt":"x","stream":{stream}}}"#);
    post_with("/v1/completions", "x-llm-d-model-name-rewrite: acme-v2-long\r\n", body)
}

async fn answer_to(request: Vec<u8>, reply: Reply) -> (Answer, Running, Engine) {
    let engine = Engine::start(move |_| reply.clone()).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let answer = gateway.ask(request).await;
    gateway.settled().await;
    (answer, gateway, engine)
}

#[tokio::test]
async fn a_document_names_the_model_that_was_asked_for_and_its_old_length_is_not_told() {
    let json = r#"{"model": "acme-v2-long","choices":[{"model":"acme-v2-long"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let (answer, gateway, engine) = answer_to(ask(false), Reply::Write(ok("application/json", json))).await;
    assert_eq!(engine.only().body, br#"{"model":"acme-v2-long","prompt":"x","stream":false}"#);
    assert_eq!(answer.status(), 200);
    assert_eq!(String::from_utf8(answer.body()).unwrap(), json.replacen("acme-v2-long", "acme", 1));
    assert_eq!(answer.header("content-length"), None);
    let outcome = &gateway.records()[0]["outcome"];
    assert_eq!((&outcome["prompt_tokens"], &outcome["ended"]), (&3.into(), &"natural".into()));
}

#[tokio::test]
async fn each_event_names_it_and_passes_at_once_even_where_the_name_is_cut() {
    let mut parts = vec![SSE.to_vec()];
    parts.extend(
        ["data: {\"model\":\"acme-v2", "-long\",\"x\":1}\n\n", "data: {\"model\":\"acme-v2-long\"}\n\n"].map(chunk),
    );
    let engine = Engine::start(move |_| Reply::Slowly(parts.clone(), Duration::from_millis(100))).await;
    let gateway = Running::start(&[engine.address], GatewayOptions::default()).await;
    let mut client = gateway.client().await;
    client.send(ask(true)).await;
    client.until("data: {\"model\":").await;
    client.until("\"acme\",\"x\":1}\n\n").await;
    // The engine has not ended the response, and never does.
    client.until("data: {\"model\":\"acme\"}\n\n").await;
}

#[tokio::test]
async fn what_is_held_back_goes_out_before_the_end() {
    let whole = [SSE, &chunk("data: {\"model\":\"acme-v2"), b"0\r\n\r\n"].concat();
    let (answer, ..) = answer_to(ask(true), Reply::Write(whole)).await;
    assert_eq!(answer.body(), b"data: {\"model\":\"acme-v2");
    let broken = [SSE, &chunk("data: {\"model\":\"acme-v2")].concat();
    let (answer, gateway, _) = answer_to(ask(true), Reply::Close(broken)).await;
    let body = String::from_utf8(answer.body()).unwrap();
    assert!(body.starts_with("data: {\"model\":\"acme-v2\n\ndata: {\"error\":"), "{body}");
    assert_eq!(gateway.records()[0]["outcome"]["ended"], "error");
    let trailers =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n";
    let trailers = [trailers.as_bytes(), &chunk("{\"model\":\"acme"), b"0\r\nx-sum: 7\r\n\r\n"].concat();
    let request = String::from_utf8(ask(false)).unwrap().replacen("host:", "te: trailers\r\nhost:", 1);
    let (answer, ..) = answer_to(request.into(), Reply::Write(trailers)).await;
    assert_eq!(answer.body(), b"{\"model\":\"acme");
    assert!(String::from_utf8_lossy(&answer.raw).ends_with("0\r\nx-sum: 7\r\n\r\n"), "{:?}", answer.raw);
}

#[tokio::test]
async fn a_large_document_passes_whole() {
    let text = "y".repeat(300_000);
    let json = format!(r#"{{"text":"{text}","model":"acme-v2-long"}}"#);
    let (answer, ..) = answer_to(ask(false), Reply::Write(ok("application/json", json))).await;
    assert_eq!(answer.body(), format!(r#"{{"text":"{text}","model":"acme"}}"#).as_bytes());
}

#[tokio::test]
async fn what_cannot_be_looked_into_passes_with_its_length() {
    let json = r#"{"model":"acme-v2-long"}"#;
    let coded = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: br\r\ncontent-length: {}\r\n\r\n{json}",
        json.len()
    );
    for reply in [coded.into_bytes(), ok("text/plain", json)] {
        let (answer, ..) = answer_to(ask(false), Reply::Write(reply)).await;
        assert_eq!(answer.body(), json.as_bytes());
        assert_eq!(answer.header("content-length"), Some(&*json.len().to_string()));
    }
    // And what asked for no other model.
    let (answer, ..) = answer_to(chat("x"), Reply::Write(ok("application/json", json))).await;
    assert_eq!(answer.header("content-length"), Some(&*json.len().to_string()));
}
