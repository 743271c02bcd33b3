//! What the Go picker answered under explicit lists of parsers (`testdata/fixtures/golden/parsers`): refusals with their words, and bodies that
//! pass as they came.

use bytes::Bytes;
use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::EndpointMeta;
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, RequestHead};
use pointsman_scheduling::Termination;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures/golden/parsers")
}

fn pool(config: &str) -> Arc<Pool> {
    let states = Arc::<LearnedStates>::default();
    let options =
        CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states: Arc::clone(&states) };
    let text = std::fs::read(golden().join(config)).expect("the configuration is there");
    let compiled = compile(&text, &options, &mut Faults::new()).unwrap_or_else(|| panic!("{config} compiles"));
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let pool = Pool::new(PoolOptions { clock, states, ..PoolOptions::default() }, compiled);
    pool.fleet.upsert(EndpointMeta::new(EndpointName::new("default", "pod-a"), "127.0.0.11", 8000));
    pool
}

/// Decodes base64 of the standard alphabet.
fn base64(text: &str) -> Vec<u8> {
    let (mut out, mut bits, mut have) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes().take_while(|b| *b != b'=') {
        let six = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".iter().position(|b| *b == byte);
        bits = bits << 6 | six.expect("base64") as u32;
        have += 6;
        if have >= 8 {
            have -= 8;
            out.push((bits >> have) as u8);
        }
    }
    out
}

fn bytes(body: &Value) -> Vec<u8> {
    match body {
        Value::String(text) => text.clone().into_bytes(),
        body => base64(body["base64"].as_str().expect("text or base64")),
    }
}

/// One recording, with the router fed chunks of `size` bytes.
fn replay(file: &Path, size: usize) {
    let name = file.file_stem().expect("a name").to_string_lossy();
    let recording: Value = serde_json::from_slice(&std::fs::read(file).expect("readable")).expect("JSON");
    let exchange = recording["exchange"].as_array().expect("an exchange");
    let all = |side: &str, kind: &str| -> Vec<&Value> {
        exchange.iter().filter_map(|m| m.get(side)).filter(|m| m["type"] == kind).collect()
    };
    let pool = pool(recording["setup"]["config"].as_str().expect("a configuration"));
    let head = all("send", "request_headers")[0];
    let text = |value: &Value| -> Box<str> { value.as_str().expect("text").into() };
    let pair = |h: &Value| (text(&h[0]), text(&h[1]));
    let headers: Vec<_> = head["headers"].as_array().expect("headers").iter().map(pair).collect();
    let pseudo = |name: &str| headers.iter().find(|(n, _)| &**n == name).expect("it is there").1.to_string();
    let mut reading = pool.begin(RequestHead {
        transport: "extproc",
        method: pseudo(":method").into(),
        path: pseudo(":path").into(),
        headers: headers.iter().filter(|(n, _)| !n.starts_with(':')).cloned().collect(),
        received: Nanos(1_000_000_000),
        subset: None,
    });
    let sent: Vec<u8> = all("send", "request_body").iter().flat_map(|m| bytes(&m["body"])).collect();
    for chunk in sent.chunks(size) {
        reading.push(Bytes::copy_from_slice(chunk));
    }
    let decided = reading.decide();
    if let Some(refusal) = all("recv", "immediate_response").first() {
        let refused = decided.expect_err(&name).refusal;
        assert_eq!(u64::from(refused.code.status()), refusal["status"].as_u64().expect("a status"), "{name}");
        let text = format!("inference error: BadRequest - {}", refused.message);
        assert_eq!(refusal["body"].as_str(), Some(&*text), "{name}");
        return;
    }
    let mut routed = decided.unwrap_or_else(|r| panic!("{name}: {}", r.refusal.message));
    assert_eq!(routed.endpoint().host_port(), "127.0.0.11:8000");
    let forwarded: Vec<u8> = all("recv", "request_body").iter().flat_map(|m| bytes(&m["body"])).collect();
    assert_eq!(routed.body().concat(), forwarded, "{name}");
    assert_eq!(forwarded, sent, "{name}: these parsers change nothing");
    let kind = all("send", "response_headers").first().and_then(|m| {
        let headers = m["headers"].as_array()?;
        headers.iter().find(|h| h[0] == "content-type")?[1].as_str()
    });
    routed.response_head(200, kind, None);
    for chunk in all("send", "response_body") {
        routed.response_chunk(&bytes(&chunk["body"]));
    }
    let decision = Arc::clone(routed.decision());
    routed.finish(Termination::Natural, None);
    let outcome = decision.outcome.lock();
    let usage = (outcome.prompt_tokens, outcome.completion_tokens, outcome.cached_tokens);
    let want = match &*name {
        "sglang-generate" => (Some(3), Some(2), Some(1)),
        "grpc-response-halves-trailers" => (Some(7), Some(10), Some(3)),
        _ => (None, None, None),
    };
    assert_eq!(usage, want, "{name}");
}

#[test]
fn every_recording_of_the_parsers_is_answered_as_recorded() {
    let mut recordings = 0;
    for entry in std::fs::read_dir(golden()).expect("golden data") {
        let file = entry.expect("an entry").path();
        if file.extension().is_some_and(|e| e == "json") {
            recordings += 1;
            for size in [1, 7, 1 << 20] {
                replay(&file, size);
            }
        }
    }
    assert!(recordings >= 19, "only {recordings} recordings were there");
}
