//! Exchanges recorded with Envoy 1.40 (`testdata/fixtures/envoy/exchanges`): what Envoy sent is sent again, bodies rebuilt to their recorded length, and
//! what is answered has the order, the kinds, one destination and the bytes that a proxy needs.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::process::{Answered, Process};

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures/envoy/exchanges");
    let entries = std::fs::read_dir(folder).expect("recordings");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.sort();
    files
}

/// A recorded body of `length` bytes that begins with `head`: a JSON prompt is stretched inside its string, anything else repeated.
fn rebuilt(message: &Value, offset: usize, total: usize) -> String {
    let length = message["body_len"].as_u64().unwrap_or(0) as usize;
    let head = message["body_head"].as_str().unwrap_or_default();
    if head.len() >= length {
        return head[..length].to_owned();
    }
    let mut body = if offset == 0 { head.to_owned() } else { String::new() };
    let last = offset + length == total;
    let tail = if last && total > head.len() { "\"}" } else { "" };
    while body.len() + tail.len() < length {
        body.push('x');
    }
    body + tail
}

/// The messages that Envoy sent on one stream, as a recording of ours spells them.
fn sent(exchange: &[Value], stream: u64) -> Vec<Value> {
    let of_envoy = |e: &&Value| e["stream"] == stream && e["dir"] == "envoy->epp";
    let total = |kind: &str| -> usize {
        exchange.iter().filter(of_envoy).map(|e| e["msg"][kind]["body_len"].as_u64().unwrap_or(0) as usize).sum()
    };
    let totals = [total("request_body"), total("response_body")];
    let mut offsets = [0, 0];
    let mut messages = Vec::new();
    for entry in exchange.iter().filter(of_envoy) {
        let message = &entry["msg"];
        for kind in [
            "request_headers",
            "request_body",
            "request_trailers",
            "response_headers",
            "response_body",
            "response_trailers",
        ] {
            let part = &message[kind];
            if part.is_null() {
                continue;
            }
            let mut told = json!({"type": kind, "end_of_stream": part["end_of_stream"].as_bool().unwrap_or_default()});
            if kind.ends_with("_body") {
                let at = usize::from(kind == "response_body");
                let body = rebuilt(part, offsets[at], totals[at]);
                offsets[at] += body.len();
                told["body"] = body.into();
            } else {
                told["headers"] = part["headers"].clone();
            }
            if message["protocol_config"].is_object() {
                told["protocol_config"] = message["protocol_config"].clone();
            }
            messages.push(told);
        }
    }
    messages
}

fn setup() -> Value {
    let endpoint = |n: u32| json!({"name": format!("e{n}"), "namespace": "default", "address": "127.0.0.1", "port": (18_080 + n).to_string()});
    json!({"config": "configs/default-parsers.yaml", "flags": [], "endpoints": [endpoint(1), endpoint(2)], "engines": {}})
}

fn bytes(answered: &Answered, kind: &str) -> Vec<u8> {
    let of = answered.received.iter().filter(|(_, m)| m["type"] == kind);
    of.flat_map(|(_, m)| m["bytes"].as_array().into_iter().flatten())
        .map(|b| b.as_u64().expect("a byte") as u8)
        .collect()
}

fn kinds(answered: &Answered) -> Vec<String> {
    let mut kinds: Vec<String> =
        answered.received.iter().map(|(_, m)| m["type"].as_str().expect("a type").to_owned()).collect();
    kinds.dedup();
    kinds
}

#[test]
fn what_envoy_sent_is_answered_in_order_with_one_destination_and_all_bytes() {
    let mut replayed = 0;
    for file in recordings() {
        let recording: Value =
            serde_json::from_str(&std::fs::read_to_string(&file).expect("a recording")).expect("JSON");
        let exchange = recording["exchange"].as_array().cloned().unwrap_or_default();
        let mut streams: Vec<u64> = exchange.iter().filter_map(|e| e["stream"].as_u64()).collect();
        streams.dedup();
        for stream in streams {
            let messages = sent(&exchange, stream);
            let Some(first) = messages.first() else { continue };
            replayed += 1;
            let name = format!("{} stream {stream}", file.file_stem().expect("a name").to_string_lossy());
            let headers_only = first["end_of_stream"] == true;
            let whole =
                headers_only || messages.iter().any(|m| m["type"] == "request_body" && m["end_of_stream"] == true);
            let answers_response = messages.iter().any(|m| m["type"] == "response_headers");
            let ends = messages.iter().any(|m| m["type"] == "response_body" && m["end_of_stream"] == true);
            let mut process = Process::start("wire", &setup(), &[]).expect("the default configuration");
            let steps: Vec<Value> = messages.iter().map(|m| json!({"send": m})).collect();
            let answered = process.exchange("one", &steps);
            let body_of = |kind: &str| -> Vec<u8> {
                let of = messages.iter().filter(|m| m["type"] == kind);
                of.flat_map(|m| m["body"].as_str().unwrap_or_default().bytes()).collect()
            };
            let request = body_of("request_body");
            let refused = whole && !headers_only && serde_json::from_slice::<Value>(&request).is_err();
            let mut want: Vec<&str> = Vec::new();
            match (whole, refused) {
                (false, _) => {}
                (true, true) => want.push("immediate_response"),
                (true, false) => {
                    want.push("request_headers");
                    if !headers_only {
                        want.push("request_body");
                    }
                    if answers_response {
                        want.push("response_headers");
                    }
                    if messages.iter().any(|m| m["type"] == "response_body") {
                        want.push("response_body");
                    }
                }
            }
            assert_eq!(kinds(&answered), want, "{name}");
            if refused || !whole {
                continue;
            }
            let destinations: Vec<&Value> = answered
                .received
                .iter()
                .filter(|(_, m)| m["type"] == "request_headers")
                .map(|(_, m)| &m["dynamic_metadata"]["envoy.lb"]["x-gateway-destination-endpoint"])
                .collect();
            assert_eq!(destinations.len(), 1, "{name}");
            assert!(
                destinations[0].as_str().is_some_and(|d| d.starts_with("127.0.0.1:1808")),
                "{name}: {destinations:?}"
            );
            if !headers_only {
                assert_eq!(bytes(&answered, "request_body"), request, "{name}: the request's bytes");
            }
            assert_eq!(bytes(&answered, "response_body"), body_of("response_body"), "{name}: the response's bytes");
            let last = answered.received.iter().rev().find(|(_, m)| m["type"] == "response_body");
            assert_eq!(last.is_some_and(|(_, m)| m["end_of_stream"] == true), ends, "{name}: the end of the response");
            assert_eq!(answered.end, None, "{name}: the proxy ends the stream");
            process.cancel_all();
            let in_flight: u64 = process.pool.fleet.load().endpoints.iter().map(|e| e.load.requests()).sum();
            assert_eq!(in_flight, 0, "{name}");
        }
    }
    assert!(replayed >= 20, "only {replayed} streams were there");
}
