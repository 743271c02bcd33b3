//! Case by case: what users reported elsewhere (BR-..), body modes, bounds, and what plugins say in responses.

use pointsman_extproc::ExtProcOptions;
use pointsman_grpc::Call as _;
use pointsman_grpc::{Code, Out, Status};
use serde_json::{Value, json};

use crate::messages;
use crate::process::{Answered, Process};

fn setup(endpoints: &[(&str, &str)]) -> Value {
    let endpoints: Vec<Value> = endpoints
        .iter()
        .enumerate()
        .map(|(i, (address, port))| json!({"name": format!("e{i}"), "namespace": "default", "address": address, "port": port}))
        .collect();
    json!({"config": "configs/default-parsers.yaml", "flags": [], "endpoints": endpoints, "engines": {}})
}

fn start(endpoints: &[(&str, &str)]) -> Process {
    Process::start("wire", &setup(endpoints), &[]).expect("the default configuration")
}

fn one() -> Process {
    start(&[("10.0.0.1", "8000")])
}

fn head(path: &str, more: &[(&str, &str)]) -> Value {
    let mut headers = vec![json!([":method", "POST"]), json!([":path", path]), json!(["x-request-id", "r"])];
    headers.extend(more.iter().map(|(name, value)| json!([name, value])));
    json!({"send": {"type": "request_headers", "headers": headers, "end_of_stream": false}})
}

fn body(text: impl Into<String>, end: bool) -> Value {
    json!({"send": {"type": "request_body", "body": text.into(), "end_of_stream": end}})
}

fn of<'a>(answered: &'a Answered, kind: &str) -> Vec<&'a Value> {
    answered.received.iter().map(|(_, m)| m).filter(|m| m["type"] == kind).collect()
}

fn text(messages: &[&Value]) -> String {
    let bytes = messages.iter().flat_map(|m| m["bytes"].as_array().into_iter().flatten());
    String::from_utf8(bytes.map(|b| b.as_u64().expect("a byte") as u8).collect()).expect("text")
}

fn set(message: &Value, name: &str) -> Vec<String> {
    let pairs = message["set_headers"].as_array().into_iter().flatten();
    pairs
        .filter(|h| h[0].as_str().is_some_and(|n| n.eq_ignore_ascii_case(name)))
        .map(|h| h[1].as_str().expect("a value").to_owned())
        .collect()
}

fn in_flight(process: &Process) -> u64 {
    process.pool.fleet.load().endpoints.iter().map(|e| e.load.requests()).sum()
}

#[test]
fn br_06_a_rewritten_body_has_one_content_length_and_it_is_right() {
    let sent = r#"{ "model" : "acme-chat",   "prompt" : "x",  "max_tokens" : 5 }"#;
    let answered = one()
        .exchange("r", &[head("/v1/completions", &[("x-llm-d-model-name-rewrite", "acme-chat-v2")]), body(sent, true)]);
    let forwarded = text(&of(&answered, "request_body"));
    assert_eq!(forwarded, sent.replace("\"acme-chat\"", "\"acme-chat-v2\""));
    let headers = of(&answered, "request_headers")[0];
    assert_eq!(set(headers, "content-length"), [forwarded.len().to_string()]);
    assert!(set(headers, "transfer-encoding").is_empty());
    let plain = one().exchange("r", &[head("/v1/completions", &[]), body(sent, true)]);
    assert_eq!(text(&of(&plain, "request_body")), sent);
    assert_eq!(set(of(&plain, "request_headers")[0], "content-length"), [sent.len().to_string()]);
}

#[test]
fn br_09_a_long_prompt_goes_on_in_pieces_of_62000_bytes() {
    let open = r#"{"model":"m","messages":[{"role":"user","content":""#;
    let sent = format!("{open}{}\"}}]}}", "a".repeat(200_000 - open.len() - 4));
    assert_eq!(sent.len(), 200_000);
    let mut steps = vec![head("/v1/chat/completions", &[])];
    let cuts = [0, 65_536, 131_072, 196_608, 200_000];
    steps.extend(cuts.windows(2).map(|w| body(&sent[w[0]..w[1]], w[1] == sent.len())));
    let answered = one().exchange("r", &steps);
    let kinds: Vec<&str> = answered.received.iter().map(|(_, m)| m["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["request_headers", "request_body", "request_body", "request_body", "request_body"]);
    let bodies = of(&answered, "request_body");
    let lengths: Vec<usize> = bodies.iter().map(|m| m["bytes"].as_array().expect("bytes").len()).collect();
    assert_eq!(lengths, [62_000, 62_000, 62_000, 14_000]);
    let ends: Vec<bool> = bodies.iter().map(|m| m["end_of_stream"] == true).collect();
    assert_eq!(ends, [false, false, false, true]);
    assert_eq!(text(&bodies), sent);
}

#[test]
fn br_11_a_request_without_a_body_gets_an_endpoint_or_503() {
    let get = json!({"send": {"type": "request_headers", "end_of_stream": true,
        "headers": [[":method", "GET"], [":path", "/v1/models"]]}});
    let mut process = one();
    let answered = process.exchange("r", std::slice::from_ref(&get));
    assert_eq!(answered.received.len(), 1);
    let destination = &answered.received[0].1["dynamic_metadata"]["envoy.lb"]["x-gateway-destination-endpoint"];
    assert_eq!(destination, "10.0.0.1:8000");
    assert_eq!(in_flight(&process), 1);
    process.cancel_all();
    assert_eq!(in_flight(&process), 0);

    let six = start(&[("fd00::1", "8000")]).exchange("r", std::slice::from_ref(&get));
    assert_eq!(set(&six.received[0].1, "x-gateway-destination-endpoint"), ["[fd00::1]:8000"]);

    let nobody = start(&[]).exchange("r", &[get]);
    let refusal = &nobody.received[0].1;
    assert_eq!(refusal["status"], 503);
    assert_eq!(set(refusal, "x-llm-d-request-dropped-reason"), ["rejected-no-endpoints"]);
}

#[test]
fn br_13_no_pseudo_header_is_ever_set() {
    let more = [(":authority", "api.example"), (":scheme", "http"), ("x-user", "1")];
    let mut process = one();
    let mut steps = vec![head("/v1/completions", &more), body(r#"{"model":"m","prompt":"x"}"#, true)];
    steps.push(json!({"send": {"type": "response_headers", "end_of_stream": false, "headers": [[":status", "200"], ["x-a", "1"]]}}));
    let answered = process.exchange("r", &steps);
    for (_, message) in &answered.received {
        for header in message["set_headers"].as_array().into_iter().flatten() {
            let name = header[0].as_str().expect("a name");
            assert!(!name.starts_with(':') && name != "x-user" && name != "x-a", "{name}");
        }
    }
}

#[test]
fn br_15_forged_routing_headers_reach_nobody() {
    let forged = [
        ("x-gateway-destination-endpoint", "10.9.9.9:1"),
        ("x-gateway-destination-endpoint-served", "a"),
        ("x-prefiller-host-port", "10.9.9.9:8000"),
        ("x-encoder-hosts-ports", "10.9.9.9:8000"),
        ("x-llm-d-request-dropped-reason", "none"),
    ];
    let answered =
        one().exchange("r", &[head("/v1/completions", &forged), body(r#"{"model":"m","prompt":"x"}"#, true)]);
    let headers = of(&answered, "request_headers")[0];
    assert_eq!(set(headers, "x-gateway-destination-endpoint"), ["10.0.0.1:8000"]);
    let removed: Vec<&str> = headers["removed"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    for (name, _) in &forged[1..] {
        assert!(removed.contains(name) && set(headers, name).is_empty(), "{name}: {headers}");
    }
}

#[test]
fn br_33_an_empty_pool_answers_503_with_its_reason() {
    let answered =
        start(&[]).exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true)]);
    let refusal = &answered.received[0].1;
    assert_eq!(refusal["status"], 503);
    assert_eq!(set(refusal, "x-llm-d-request-dropped-reason"), ["rejected-no-endpoints"]);
    assert_eq!(answered.end, Some((0, String::new())));
}

#[test]
fn br_33_filters_that_leave_nobody_answer_429() {
    let mut setup = setup(&[("10.0.0.1", "8000")]);
    setup["config"] = "configs/header-testing.yaml".into();
    let mut process = Process::start("scheduling", &setup, &[]).expect("its plugins exist");
    let answered = process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true)]);
    let refusal = &answered.received[0].1;
    assert_eq!(refusal["status"], 429);
    assert_eq!(set(refusal, "x-llm-d-request-dropped-reason"), ["rejected-saturated"]);
}

#[test]
fn br_33_a_picker_that_stops_answers_503_with_its_reason() {
    let process = one();
    let mut exchange = process.new_exchange();
    let mut out = Out::default();
    exchange.message(messages::encode(&head("/v1/completions", &[])["send"]), &mut out);
    exchange.ended(&Status::new(Code::Unavailable, "stopping"), &mut out);
    let answers = messages::decode(&out.take());
    assert_eq!(answers[0]["status"], 503);
    assert_eq!(set(&answers[0], "x-llm-d-request-dropped-reason"), ["rejected-shutting-down"]);
    assert_eq!(out.status(), Some(&Status::OK));
}

fn in_mode(request: &str, response: &str, path: &str) -> Value {
    let mut head = head(path, &[]);
    head["send"]["protocol_config"] = json!({"request_body_mode": request, "response_body_mode": response});
    head
}

#[test]
fn a_buffered_body_is_answered_with_the_destination_and_what_changed() {
    let mut first = in_mode("BUFFERED", "BUFFERED", "/v1/completions");
    first["send"]["headers"].as_array_mut().expect("a list").push(json!(["x-llm-d-model-name-rewrite", "other"]));
    let mut process = one();
    let answered = process.exchange("r", &[first, body(r#"{"model":"m","prompt":"x"}"#, true)]);
    assert_eq!(answered.received[0].0, 1, "the headers go on at once, or Envoy sends no body");
    assert!(answered.received[0].1["set_headers"].is_null());
    let told = &answered.received[1].1;
    assert_eq!(set(told, "x-gateway-destination-endpoint"), ["10.0.0.1:8000"]);
    assert_eq!(told["clear_route_cache"], true);
    assert_eq!(told["replaced"], r#"{"model":"other","prompt":"x"}"#);
    process.send("r", &json!({"type": "response_headers", "headers": [[":status", "200"], ["content-type", "application/json"]], "end_of_stream": false}));
    process.send("r", &json!({"type": "response_body", "body": r#"{"model":"other","usage":{"prompt_tokens":7,"completion_tokens":2}}"#, "end_of_stream": true}));
    let record = serde_json::to_value(&*process.pool.ring.newest(1, None)[0]).expect("JSON");
    assert_eq!(record["outcome"]["prompt_tokens"], 7);
    assert_eq!(record["outcome"]["ended"], "natural");
}

#[test]
fn without_a_body_to_see_the_request_is_routed_by_its_headers() {
    for mode in ["NONE", "STREAMED"] {
        let mut process = one();
        let mut steps = vec![in_mode(mode, "NONE", "/v1/chat/completions")];
        if mode == "STREAMED" {
            steps.push(body("{\"mod", false));
            steps.push(body("el\":1}", true));
        }
        let answered = process.exchange("r", &steps);
        assert_eq!(answered.received[0].0, 1, "{mode}: at once");
        assert_eq!(set(&answered.received[0].1, "x-gateway-destination-endpoint"), ["10.0.0.1:8000"], "{mode}");
        assert_eq!(answered.received.len(), steps.len(), "{mode}: every message has its answer");
    }
}

#[test]
fn bodies_beyond_the_bounds_are_refused_with_their_status() {
    let request =
        [head("/v1/completions", &[]), body(r#"{"model":"m","#, false), body(r#""prompt":"xxxxxxxxxx"}"#, true)];
    for (options, status) in [
        (ExtProcOptions { max_body_bytes: 20, ..ExtProcOptions::default() }, 413),
        (ExtProcOptions { buffer_budget_bytes: 20, ..ExtProcOptions::default() }, 503),
    ] {
        let mut process = Process::with(&setup(&[("10.0.0.1", "8000")]), options);
        let answered = process.exchange("r", &request);
        assert_eq!(answered.received.len(), 1);
        assert_eq!(answered.received[0].1["status"], status);
        assert_eq!(answered.end, Some((0, String::new())));
        assert_eq!((process.held_bytes(), in_flight(&process)), (0, 0));
    }
}

#[test]
fn the_decision_id_is_told_when_asked_for() {
    let options = ExtProcOptions { emit_decision_id: true, ..ExtProcOptions::default() };
    let mut process = Process::with(&setup(&[("10.0.0.1", "8000")]), options);
    let response =
        json!({"send": {"type": "response_headers", "headers": [[":status", "200"]], "end_of_stream": true}});
    let answered =
        process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true), response]);
    let newest = process.pool.ring.newest(1, None);
    assert_eq!(set(of(&answered, "response_headers")[0], "x-pointsman-decision"), [newest[0].id.to_string()]);
    let refused = process.exchange("r2", &[head("/v1/completions", &[]), body("{}", true)]);
    let newest = process.pool.ring.newest(1, None);
    assert_eq!(set(&refused.received[0].1, "x-pointsman-decision"), [newest[0].id.to_string()]);
}

#[test]
fn the_endpoint_that_the_proxy_says_it_used_is_in_the_record() {
    let mut process = one();
    let response = json!({"send": {"type": "response_headers", "headers": [[":status", "200"]], "end_of_stream": true,
        "metadata_context": {"envoy.lb": {"x-gateway-destination-endpoint-served": "10.0.0.9:8000"}}}});
    process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true), response]);
    let record = serde_json::to_value(&*process.pool.ring.newest(1, None)[0]).expect("JSON");
    assert_eq!(record["outcome"]["endpoint"], "10.0.0.9:8000");
}

#[test]
fn a_status_of_the_engine_counts_in_either_spelling() {
    for name in [":status", "status"] {
        let mut process = one();
        let response = json!({"send": {"type": "response_headers", "headers": [[name, "503"]], "end_of_stream": true}});
        process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true), response]);
        assert!(process.page().contains(r#"error_code="ModelServerError""#), "{name}");
    }
}

#[test]
fn several_set_cookie_lines_stay_as_they_are() {
    let mut process = one();
    let response = json!({"send": {"type": "response_headers", "end_of_stream": true,
        "headers": [[":status", "200"], ["set-cookie", "a=1"], ["set-cookie", "b=2"]]}});
    let answered =
        process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true), response]);
    assert!(set(of(&answered, "response_headers")[0], "set-cookie").is_empty());
}

#[test]
fn a_response_of_the_proxy_itself_passes_before_any_decision() {
    let mut process = one();
    let steps = [
        head("/v1/completions", &[]),
        body("{\"model\":\"m\",", false),
        json!({"send": {"type": "response_headers", "headers": [[":status", "408"]], "end_of_stream": false}}),
        json!({"send": {"type": "response_body", "body": "stream timeout", "end_of_stream": true}}),
    ];
    let answered = process.exchange("r", &steps);
    let kinds: Vec<&str> = answered.received.iter().map(|(_, m)| m["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["response_headers", "response_body"]);
    assert_eq!(text(&of(&answered, "response_body")), "stream timeout");
    assert_eq!(answered.received[1].1["end_of_stream"], true);
    process.cancel_all();
    assert_eq!((process.held_bytes(), in_flight(&process)), (0, 0));
}

#[test]
fn a_buffered_request_of_trailers_alone_is_refused() {
    let trailers = json!({"send": {"type": "request_trailers", "headers": []}});
    let answered = one().exchange("r", &[in_mode("BUFFERED", "NONE", "/any"), trailers]);
    assert_eq!(answered.received[1].1["status"], 400);
    assert_eq!(answered.end, Some((0, String::new())));
}

#[test]
fn a_buffered_response_is_over_with_its_body_whatever_follows() {
    let mut process = one();
    let steps = [
        in_mode("FULL_DUPLEX_STREAMED", "BUFFERED", "/v1/completions"),
        body(r#"{"model":"m","prompt":"x"}"#, true),
        json!({"send": {"type": "response_headers", "headers": [[":status", "200"]], "end_of_stream": false}}),
        json!({"send": {"type": "response_body", "body": "{}", "end_of_stream": false}}),
        json!({"client": "closes its side"}),
    ];
    process.exchange("r", &steps);
    let record = serde_json::to_value(&*process.pool.ring.newest(1, None)[0]).expect("JSON");
    assert_eq!(record["outcome"]["ended"], "natural");
}

#[test]
fn a_response_without_a_status_counts_as_a_failure() {
    let mut process = one();
    let response = json!({"send": {"type": "response_headers", "headers": [["x", "y"]], "end_of_stream": true}});
    process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true), response]);
    assert!(process.page().contains(r#"error_code="ModelServerError""#));
}

#[test]
fn a_model_that_is_no_name_gives_way_to_the_rewritten_one() {
    let steps =
        [head("/v1/completions", &[("x-llm-d-model-name-rewrite", "b")]), body(r#"{"model":null,"prompt":"x"}"#, true)];
    let answered = one().exchange("r", &steps);
    let forwarded: Value = serde_json::from_str(&text(&of(&answered, "request_body"))).expect("JSON");
    assert_eq!(forwarded, json!({"model": "b", "prompt": "x"}));
}

#[test]
fn what_the_transport_refuses_is_recorded_and_counted() {
    let options = ExtProcOptions { max_body_bytes: 20, ..ExtProcOptions::default() };
    let mut process = Process::with(&setup(&[("10.0.0.1", "8000")]), options);
    process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"xxxxxxxxxx"}"#, true)]);
    let record = serde_json::to_value(&*process.pool.ring.newest(1, None)[0]).expect("JSON");
    assert_eq!((&record["outcome"]["status"], &record["outcome"]["ended"]), (&json!(413), &json!("refused")));
}

fn start_with(folder: &str, config: &str, endpoints: Value) -> Process {
    let setup = json!({"config": config, "flags": [], "endpoints": endpoints, "engines": {}});
    Process::start(folder, &setup, &[]).expect("every plugin is there")
}

fn endpoint(name: &str, address: &str, role: &str) -> Value {
    json!({"name": name, "namespace": "default", "address": address, "port": "8000", "labels": {"llm-d.ai/role": role}})
}

#[test]
fn e7_routing_headers_of_a_client_are_removed_where_the_picker_sets_none() {
    let endpoints = json!([endpoint("p", "10.0.0.1", "prefill"), endpoint("d", "10.0.0.2", "decode")]);
    let names = [
        "x-prefiller-host-port",
        "x-encoder-hosts-ports",
        "x-data-parallel-host-port",
        "x-data-parallel-rank",
        "x-kv-cache-source-host-port",
    ];
    let forged: Vec<(&str, &str)> = names.iter().map(|name| (*name, "6.6.6.6:1")).collect();
    let mut process = start_with("profiles", "configs/disagg-prefix-512.yaml", endpoints);
    let short = body(r#"{"model":"m","prompt":"short"}"#, true);
    let answered = process.exchange("r", &[head("/v1/completions", &forged), short]);
    let headers = of(&answered, "request_headers")[0];
    let removed: Vec<&str> = headers["removed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(names.iter().all(|name| removed.contains(name)), "{removed:?}");
    assert!(names.iter().all(|name| set(headers, name).is_empty()), "{headers}");

    // E8: what the picker sets replaces what the client sent, and is not removed.
    let long = body(format!(r#"{{"model":"m","prompt":"{}"}}"#, "x".repeat(4096)), true);
    let answered = process.exchange("s", &[head("/v1/completions", &forged), long]);
    let headers = of(&answered, "request_headers")[0];
    let removed: Vec<&str> = headers["removed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(set(headers, names[0]), ["10.0.0.1:8000"]);
    assert!(!removed.contains(&names[0]) && names[1..].iter().all(|name| removed.contains(name)), "{removed:?}");
}

#[test]
fn e10_a_port_in_place_of_the_endpoints_own_is_told_as_the_destination() {
    let mut process = start(&[("fd00::1", "8003")]);
    let document = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n\
        - {type: data-parallel-profile-handler, parameters: {primaryPort: 8000}}\nschedulingProfiles:\n\
        - {name: default, plugins: [{pluginRef: queue-scorer}]}\n";
    let mut faults = pointsman_config::Faults::new();
    let default = pointsman_plugins::DefaultProfile::Epp;
    let compiled = process.pool.recompile(document.as_bytes(), true, default, &mut faults);
    process.pool.activate(compiled.expect("a good configuration"));
    let answered = process.exchange("r", &[head("/v1/completions", &[]), body(r#"{"model":"m","prompt":"x"}"#, true)]);
    let headers = of(&answered, "request_headers")[0];
    assert_eq!(set(headers, "x-gateway-destination-endpoint"), ["[fd00::1]:8000"]);
    assert_eq!(set(headers, "x-data-parallel-host-port"), ["[fd00::1]:8003"]);
    assert_eq!(headers["dynamic_metadata"]["envoy.lb"]["x-gateway-destination-endpoint"], "[fd00::1]:8000");
}

#[test]
fn attributes_come_once_with_the_last_answer_however_the_response_is_sent() {
    let usage = r#"{"usage":{"prompt_tokens":7,"completion_tokens":2,"total_tokens":9}}"#;
    let told = json!({"envoy.lb": {"tok": 11.0}});
    let piece = |text: &str, end: bool| json!({"send": {"type": "response_body", "body": text, "end_of_stream": end}});
    let trailers = json!({"send": {"type": "response_trailers", "headers": []}});
    let long = format!(r#"{{"pad":"{}",{}"#, "x".repeat(150_000), &usage[1..]);
    for (mode, response) in [
        ("FULL_DUPLEX_STREAMED", vec![piece(usage, true)]),
        ("FULL_DUPLEX_STREAMED", vec![piece(&usage[..20], false), piece(&usage[20..], true)]),
        ("FULL_DUPLEX_STREAMED", vec![piece(&long, true)]),
        ("FULL_DUPLEX_STREAMED", vec![piece(usage, false), trailers.clone()]),
        ("STREAMED", vec![piece(&usage[..20], false), piece(&usage[20..], true)]),
        ("BUFFERED", vec![piece(usage, true)]),
        ("BUFFERED", vec![piece(usage, false), trailers]),
    ] {
        let mut process = start_with("headers", "configs/reporter.yaml", json!([endpoint("a", "10.0.0.1", "decode")]));
        let mut first = head("/v1/completions", &[]);
        first["send"]["protocol_config"] =
            json!({"request_body_mode": "FULL_DUPLEX_STREAMED", "response_body_mode": mode});
        let headers = json!([[":status", "200"], ["content-type", "application/json"]]);
        let mut steps = vec![first, body(r#"{"model":"m","prompt":"x"}"#, true)];
        steps.push(json!({"send": {"type": "response_headers", "headers": headers, "end_of_stream": false}}));
        steps.extend(response);
        let answered = process.exchange("r", &steps);
        let kind = |m: &Value| m["type"].as_str().is_some_and(|t| t.starts_with("response_"));
        let answers: Vec<&Value> = answered.received.iter().map(|(_, m)| m).filter(|m| kind(m)).collect();
        let with: Vec<usize> = (0..answers.len()).filter(|&i| answers[i].get("dynamic_metadata").is_some()).collect();
        // Where trailers follow a buffered body, its answer is the last that is known to come.
        let last = answers.iter().rposition(|m| m["type"] == "response_body" || mode != "BUFFERED");
        assert_eq!(with, [last.expect("an answer")], "{mode}: {answers:?}");
        assert_eq!(answers[with[0]]["dynamic_metadata"], told, "{mode}");
        let record = serde_json::to_value(&*process.pool.ring.newest(1, None)[0]).expect("JSON");
        assert_eq!(record["outcome"]["attributes"], json!({"envoy.lb": {"tok": 11}}), "{mode}");
    }
}
