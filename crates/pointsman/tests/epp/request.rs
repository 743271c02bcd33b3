//! One request, from a proxy through the process to an engine's choice and its record.

use std::collections::BTreeMap;

use pointsman_grpc::{Message, Rope};
use serde_json::{Value, json};

use crate::support::grpc::{Call, Client};
use crate::support::process::{Epp, LONG, Process, command, pointsman};

#[path = "../../../extproc/tests/suite/messages.rs"]
mod messages;

const PROCESS: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// The head of a chat request.
fn head() -> Value {
    json!({"type": "request_headers", "end_of_stream": false, "headers": [
        [":method", "POST"], [":path", "/v1/chat/completions"], [":scheme", "http"], [":authority", "llm"],
        ["content-type", "application/json"], ["x-request-id", "a-request"],
    ]})
}

fn body() -> Value {
    let body = json!({"model": "base-model", "messages": [{"role": "user", "content": "hello"}]}).to_string();
    json!({"type": "request_body", "end_of_stream": true, "body": body})
}

/// What an answer says.
pub(crate) fn read(message: &Message) -> Value {
    let payload: Vec<u8> = message.pieces().flatten().copied().collect();
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(payload.len()).expect("a short answer").to_be_bytes());
    framed.extend_from_slice(&payload);
    let mut rope = Rope::default();
    rope.push(framed.into());
    messages::decode(&rope).remove(0)
}

/// Begins an exchange and sends a whole request.
pub(crate) fn ask(client: &mut Client) -> Call {
    let call = client.call(PROCESS);
    call.send(&messages::encode(&head()));
    call.send(&messages::encode(&body()));
    call
}

/// The answer to the request's head.
pub(crate) async fn answer(call: &mut Call) -> Value {
    match call.next().await {
        Some(message) => read(&message),
        None => panic!("the call ended: {:?}", call.end()),
    }
}

/// Begins an exchange whose response has begun and does not end.
pub(crate) async fn endless(client: &mut Client) -> Call {
    let mut call = ask(client);
    answer(&mut call).await;
    answer(&mut call).await;
    let headers = json!([[":status", "200"], ["content-type", "text/event-stream"]]);
    call.send(&messages::encode(&json!({"type": "response_headers", "end_of_stream": false, "headers": headers})));
    answer(&mut call).await;
    call
}

/// Goes on with it by one event, and gives the answer's kind, or `None` when the stream has ended.
pub(crate) async fn event(call: &mut Call) -> Option<Value> {
    call.send(&messages::encode(&json!({"type": "response_body", "end_of_stream": false, "body": "data: {}\n\n"})));
    call.next().await.map(|message| read(&message)["type"].clone())
}

/// Where a request goes.
pub(crate) fn destination(answer: &Value) -> &str {
    answer["dynamic_metadata"]["envoy.lb"]["x-gateway-destination-endpoint"].as_str().unwrap_or_default()
}

/// The score of every endpoint; none when the request is refused.
pub(crate) async fn scores(client: &mut Client) -> BTreeMap<String, Value> {
    let answer = answer(&mut ask(client)).await;
    let scores = &answer["dynamic_metadata"]["envoy.lb"]["x-gateway-destination-endpoint-scores"];
    scores.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
}

/// A simulated engine, and its address.
fn engine() -> (Process, String) {
    let mut started = command(pointsman(), std::path::Path::new("."));
    started.args(["engine", "--host", "127.0.0.1", "--port", "0"]);
    let mut process = Process::spawn(started);
    let address = process.line(|line| line.split_once("address=").map(|(_, rest)| rest.to_owned()));
    let address = address.expect("it listens").split(' ').next().expect("an address").to_owned();
    (process, address)
}

#[tokio::test]
async fn a_request_over_grpc_is_sent_to_a_ready_engine_and_explained_at_the_admin_listener() {
    let (one, two) = (engine(), engine());
    let started = std::time::Instant::now();
    let epp = Epp::start(&[&one.1, &two.1], &["--secure-serving=false", "--emit-decision-id"]);
    let mut client = Client::connect(epp.grpc).await;
    // On a busy machine the first look at the engines may come after the start.
    let (mut call, head) = loop {
        let mut call = ask(&mut client);
        let head = answer(&mut call).await;
        if head["status"] != 503 || started.elapsed() > std::time::Duration::from_secs(20) {
            break (call, head);
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    let chosen = destination(&head).to_owned();
    assert!([&one.1, &two.1].contains(&&chosen), "{head}");
    let same = answer(&mut call).await;
    assert_eq!((&same["type"], &same["end_of_stream"]), (&"request_body".into(), &true.into()));
    assert_eq!(same["bytes"], Value::from(messages::bytes_of(&body()["body"])), "the body passes as it came");

    let headers = json!([[":status", "200"], ["content-type", "application/json"]]);
    call.send(&messages::encode(&json!({"type": "response_headers", "end_of_stream": false, "headers": headers})));
    let response = answer(&mut call).await;
    let usage = json!({"model": "base-model", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}).to_string();
    call.send(&messages::encode(&json!({"type": "response_body", "end_of_stream": true, "body": usage})));
    answer(&mut call).await;
    call.sender = None;
    assert!(call.next().await.is_none());
    assert_eq!(call.end(), Some(&(0, String::new())));

    let shown = epp.ask(&["explain", "last"]);
    assert!(shown.code == Some(0) && shown.stdout.contains("POST /v1/chat/completions"), "{shown:?}");
    let record: Value = serde_json::from_str(&epp.ask(&["explain", "last", "--json"]).stdout).expect("JSON");
    assert_eq!(
        (
            &record["transport"],
            &record["request_id"],
            &record["outcome"]["endpoint"],
            &record["outcome"]["prompt_tokens"]
        ),
        (&"extproc".into(), &"a-request".into(), &chosen.into(), &7.into()),
        "{record}"
    );
    let id = record["id"].as_str().expect("an id").to_owned();
    let told =
        response["set_headers"].as_array().into_iter().flatten().any(|h| h[0] == "x-pointsman-decision" && h[1] == *id);
    assert!(told, "{response}");
    let wrong = epp.ask_at(&epp.metrics.to_string(), &["explain", "last"]);
    assert!(wrong.code == Some(3) && wrong.stderr.contains("127.0.0.1:9091 with `epp`"), "{wrong:?}");
    let status = epp.ask(&["status"]);
    assert!(status.code == Some(0) && status.stdout.contains("2 of 2 endpoints ready"), "{status:?}");
}

#[tokio::test]
async fn an_engine_that_does_not_answer_gets_no_requests_unless_nobody_is_to_ask() {
    let (_one, address) = engine();
    let gone = "127.0.0.11:8000";
    let flags = ["--secure-serving=false", "--emit-endpoint-scores"];
    let mut asking = Epp::start(&[gone, &address], &flags);
    let mut client = Client::connect(asking.grpc).await;
    let began = std::time::Instant::now();
    loop {
        let scores = scores(&mut client).await;
        if scores.keys().eq([&address]) {
            break;
        }
        assert!(began.elapsed() < LONG, "{scores:?}\n{}", asking.process.said());
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    let trusting = Epp::start(&[gone, &address], &[&flags[..], &["--engine-health-checks=false"]].concat());
    let mut client = Client::connect(trusting.grpc).await;
    assert_eq!(scores(&mut client).await.len(), 2);
}
