//! Requests through the router: where they go, what is charged to whom, and that each ends once.

mod support;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use pointsman_config::Faults;
use pointsman_core::{Clock, EndpointName};
use pointsman_fleet::Condition;
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{PoolOptions, Refused, RequestHead, Routed};
use pointsman_scheduling::Termination;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use support::bench::{bench, bench_with, prompt, served};

#[test]
fn br_49_cold_requests_to_equal_endpoints_are_spread() {
    for default in [DefaultProfile::Epp, DefaultProfile::Serve] {
        let bench = bench(&["a", "b", "c", "d"], default, "");
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        for i in 0..40 {
            let routed = bench.prompt(&prompt(i)).expect("routed");
            *seen.entry(served(&routed)).or_default() += 1;
            routed.finish(Termination::Natural, None);
        }
        assert_eq!(seen.len(), 4, "{default:?}: {seen:?}");
        assert!(seen.values().all(|n| *n <= 20), "{default:?}: {seen:?}");
    }
}

#[test]
fn br_49_a_small_index_does_not_attract_cold_requests_to_a_busy_endpoint() {
    for default in [DefaultProfile::Epp, DefaultProfile::Serve] {
        let bench = bench(&["a", "b"], default, "");
        bench.scraped("b", 50.0, 0.0);
        for i in 0..50 {
            let routed = bench.prompt(&prompt(i)).expect("routed");
            assert_eq!(served(&routed), "a");
            routed.finish(Termination::Natural, None);
        }
        // Now a holds a large index and is idle; b holds nothing and has 50 waiting.
        for i in 100..110 {
            assert_eq!(served(&bench.prompt(&prompt(i)).expect("routed")), "a");
        }
    }
}

#[test]
fn a_conversation_stays_where_its_prefix_is_and_the_match_grows() {
    let bench = bench(&["a", "b", "c"], DefaultProfile::Serve, "");
    let (mut text, mut home, mut matched) = (prompt(1), None, 0);
    for turn in 0..5 {
        let routed = bench.prompt(&text).expect("routed");
        let home = home.get_or_insert_with(|| served(&routed));
        assert_eq!(served(&routed), *home);
        let predicted = routed.decision().outcome.lock().cached_tokens_predicted;
        assert!(turn == 0 || predicted > matched, "turn {turn}: {predicted} after {matched}");
        matched = predicted;
        routed.finish(Termination::Natural, None);
        text.push_str(&prompt(turn + 50));
    }
}

#[test]
fn how_a_prompt_begins_is_on_record_only_where_that_was_asked_for() {
    let silent = bench(&["a"], DefaultProfile::Serve, "");
    assert_eq!(silent.prompt(&prompt(1)).expect("routed").decision().prompt, None);
    let bench = bench_with(&["a"], DefaultProfile::Serve, "", |options| PoolOptions { show_prompts: true, ..options });
    let text: String = (0..3_000).map(|n| format!("{n:03}")).collect();
    let decision = Arc::clone(bench.prompt(&text).expect("routed").decision());
    let kept = decision.prompt.as_deref().expect("it is kept");
    assert_eq!((kept.bytes.len(), &*kept.text()), (4_096, &text[..4_096]));
    assert_eq!(kept.chain.len(), text.len().div_ceil(kept.block_bytes));
    assert_eq!(kept.of_blocks(2, 30).as_deref(), Some(&text[2 * kept.block_bytes..][..30]));
    assert_eq!(kept.of_blocks(4_096 / kept.block_bytes, 30), None);
    let ids = bench.send(&[], "{\"model\":\"m\",\"prompt\":[1,2,3]}").expect("routed");
    assert_eq!(ids.decision().prompt, None);
}

#[test]
fn an_endpoint_that_could_not_serve_is_credited_with_nothing() {
    let bench = bench(&["a", "b"], DefaultProfile::Serve, "");
    let mut routed = bench.prompt(&prompt(1)).expect("routed");
    routed.dispatched();
    let (first, tokens) = (Arc::clone(routed.endpoint()), routed.endpoint().load.tokens());
    assert!(tokens > 0);
    assert!(routed.retry("connection refused"));
    let second = Arc::clone(routed.endpoint());
    assert_ne!(first.id, second.id);
    assert_eq!((first.load.requests(), first.load.tokens()), (0, 0));
    assert_eq!((second.load.requests(), second.load.tokens()), (1, tokens));
    routed.response_head(200, Some("application/json"), None);
    routed.response_chunk(br#"{"usage":{"prompt_tokens":400,"completion_tokens":2,"total_tokens":402}}"#);
    let decision = Arc::clone(routed.decision());
    routed.finish(Termination::Natural, None);
    assert_eq!(bench.in_flight(), 0);
    let record = serde_json::to_value(&*decision).expect("JSON");
    assert_eq!(record["outcome"]["retries"], 1);
    assert_eq!(record["outcome"]["retried"][0]["error"], "connection refused");
    assert_eq!(record["outcome"]["endpoint"], second.host_port());
    assert_eq!(record["outcome"]["prompt_tokens"], 400);
    // The index credits the one that served, and only it.
    let again = bench.prompt(&prompt(1)).expect("routed");
    assert_eq!(again.endpoint().id, second.id);
    let matches = &serde_json::to_value(&**again.decision()).expect("JSON")["profiles"][0]["candidates"];
    for c in matches.as_array().expect("candidates") {
        let held = c["prefix_match_tokens"].as_u64().expect("a number") > 0;
        assert_eq!(held, c["address"] == second.host_port(), "{c}");
    }
}

#[test]
fn a_retry_asks_nobody_twice_and_nobody_that_is_not_ready() {
    let bench = bench(&["a", "b", "c"], DefaultProfile::Serve, "");
    let mut routed = bench.prompt("x").expect("routed");
    let first = served(&routed);
    let other = ["a", "b", "c"].into_iter().find(|n| *n != first).expect("another");
    bench.endpoint(other).health.set(Condition::Ejected, Some("refused".into()), &*bench.clock);
    assert!(routed.retry("refused"));
    let second = served(&routed);
    assert!(second != first && second != other);
    assert!(!routed.retry("refused"));
    routed.finish(Termination::Error, Some("nobody is left".into()));
    assert_eq!(bench.in_flight(), 0);
}

#[test]
fn every_way_to_end_ends_once_and_leaves_no_load() {
    let bench = bench(&["a", "b"], DefaultProfile::Serve, "");
    let ended = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&ended);
    bench.pool.on_finished(Box::new(move |_| {
        counter.fetch_add(1, Ordering::SeqCst);
    }));
    let begin = || bench.prompt(&prompt(3)).expect("routed");
    drop(begin());
    begin().finish(Termination::Natural, None);
    begin().finish(Termination::Error, Some("reset".into()));
    begin().finish(Termination::Shutdown, None);
    let mut routed = begin();
    routed.response_head(200, Some("text/event-stream"), None);
    routed.response_chunk(b"data: {}\n\n");
    drop(routed);
    assert!(bench.send(&[], "not JSON").is_err());
    assert_eq!(ended.load(Ordering::SeqCst), 6);
    assert_eq!(bench.in_flight(), 0);
    let page = bench.page();
    for line in
        page.lines().filter(|l| l.starts_with("llm_d_epp_request_running{") || l.starts_with("llm_d_epp_inflight"))
    {
        assert!(line.ends_with(" 0"), "{line}");
    }
    let aborted: f64 = page
        .lines()
        .filter(|l| l.starts_with("llm_d_epp_request_aborted_total{"))
        .filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok())
        .sum();
    assert_eq!(aborted, 4.0);
}

#[test]
fn refusals_have_their_status_and_reason() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    let status = |r: Result<Routed, Refused>| {
        let refused = r.expect_err("refused");
        assert_eq!(refused.decision.outcome.lock().status, Some(refused.refusal.code.status()));
        (refused.refusal.code.status(), refused.refusal.reason.map(|r| r.as_str()))
    };
    assert_eq!(status(bench.send(&[], "{}")), (400, None));
    assert_eq!(status(bench.send(&[], r#"{"prompt":"x"}"#)), (400, None));
    bench.endpoint("a").engine.set_models(Some(vec!["other".into()]));
    assert_eq!(status(bench.prompt("x")), (404, None));
    bench.endpoint("a").engine.set_models(None);
    bench.endpoint("a").health.set(Condition::Probe, Some("connection refused".into()), &*bench.clock);
    assert_eq!(status(bench.prompt("x")), (503, Some("rejected-no-endpoints")));
    let two = self::bench(&["a", "b"], DefaultProfile::Serve, "");
    let down = |name: &str| two.endpoint(name).health.set(Condition::Probe, Some("refused".into()), &*two.clock);
    down("b");
    two.endpoint("a").engine.set_models(Some(vec!["other".into()]));
    assert_eq!(status(two.prompt("x")).0, 503, "b may well serve it");
    two.endpoint("b").engine.set_models(Some(vec!["other".into()]));
    assert_eq!(status(two.prompt("x")).0, 404, "b has said that it does not");
    let none = self::bench(&[], DefaultProfile::Serve, "");
    assert_eq!(status(none.prompt("x")), (503, Some("rejected-no-endpoints")));
}

#[test]
fn what_is_out_before_the_filters_says_which_way() {
    let bench = bench(&["a", "b", "c", "d"], DefaultProfile::Serve, "");
    bench.endpoint("a").engine.set_models(Some(vec!["other".into()]));
    bench.endpoint("b").health.set(Condition::Drained, Some("drained by hand".into()), &*bench.clock);
    let mut reading = bench.pool.begin(RequestHead {
        transport: "extproc",
        method: "POST".into(),
        path: "/v1/completions".into(),
        headers: Arc::new([]),
        received: bench.clock.now(),
        subset: Some(vec!["10.0.0.1:8000".into(), "10.0.0.2".into(), "[10.0.0.4]:8000".into(), "10.0.0.4:8000".into()]),
    });
    reading.push(Bytes::from_static(br#"{"model":"m","prompt":"x"}"#));
    let routed = reading.decide().expect("routed");
    assert_eq!(served(&routed), "d");
    let record = serde_json::to_value(&**routed.decision()).expect("JSON");
    let candidates = record["profiles"][0]["candidates"].as_array().expect("candidates");
    let by = |name: &str| candidates.iter().find(|c| c["endpoint"] == name).map(|c| c["dropped_by"].clone());
    assert_eq!(by("a"), Some("model-not-listed".into()));
    assert_eq!(by("b"), Some("not-ready".into()));
    assert_eq!(by("c"), Some("not-in-subset".into()));
    assert_eq!(by("d"), Some(serde_json::Value::Null));
}

#[test]
fn received_counts_every_request_so_that_errors_never_exceed_it() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    assert!(bench.send(&[], "not JSON").is_err());
    assert!(bench.send(&[], r#"{"prompt":"x"}"#).is_err());
    bench.prompt("x").expect("routed").finish(Termination::Natural, None);
    bench.send_to("/v1/rerank", &[], "").expect("routed").finish(Termination::Natural, None);
    let page = bench.page();
    let sum = |family: &str| -> f64 {
        let lines =
            page.lines().filter(|l| l.starts_with(&format!("{family}{{")) || l.starts_with(&format!("{family} ")));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    };
    assert_eq!(sum("llm_d_epp_request_received_total"), 3.0);
    assert_eq!(sum("llm_d_epp_request_error_total"), 2.0);
    assert_eq!(sum("llm_d_epp_request_total"), 1.0);
    assert_eq!(sum("llm_d_epp_request_duration_seconds_count"), 1.0);
    assert_eq!(sum("pointsman_bodyless_requests_total"), 1.0);
}

#[test]
fn br_33_filters_that_leave_nobody_answer_429() {
    let config = "plugins:\n- {type: queue-scorer}\n- type: utilization-filter\n  parameters: {conditions: [{metric: waiting-queue, maxValue: 3}]}\n";
    let bench = bench(&["a"], DefaultProfile::Serve, config);
    bench.scraped("a", 9.0, 0.0);
    let refused = bench.prompt("x").expect_err("refused");
    assert_eq!(refused.refusal.code.status(), 429);
    assert_eq!(refused.refusal.reason.map(|r| r.as_str()), Some("rejected-saturated"));
    let record = serde_json::to_value(&*refused.decision).expect("JSON");
    let a = &record["profiles"][0]["candidates"][0];
    assert_eq!(a["dropped_by"], "utilization-filter");
    assert_eq!(a["reason"], "waiting-queue is 9, limit 3");
}

#[test]
fn the_rewrite_header_changes_the_model_and_nothing_else() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    let body =
        "{ \"seed\": 18446744073709551615, \"model\" : \"acme-chat\",   \"prompt\" : \"x\",  \"max_tokens\" : 5 }";
    let routed = bench.send(&[("x-llm-d-model-name-rewrite", "acme-chat-v2")], body).expect("routed");
    let sent: Vec<u8> = routed.body().iter().flat_map(|c| c.to_vec()).collect();
    assert_eq!(String::from_utf8(sent).expect("text"), body.replace("acme-chat", "acme-chat-v2"));
    assert_eq!(routed.body_len(), body.len() as u64 + 3);
    let routed = bench.send(&[], body).expect("routed");
    assert_eq!(routed.body()[..], [Bytes::from_static(body.as_bytes())]);
}

#[test]
fn a_response_names_the_model_that_was_asked_for_where_it_can_be_looked_into() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    let rewrite = ("x-llm-d-model-name-rewrite", "acme-v2");
    let passed = |headers: &[(&str, &str)], body: &'static str, kind: Option<&str>, coding: Option<&str>| {
        let mut routed = bench.send(headers, body).expect("routed");
        assert!(!routed.rewrites_response(), "not before its head is known");
        routed.response_head(200, kind, coding);
        let mut out = Vec::new();
        routed.rewrite_response(Bytes::from_static(br#"{"model":"acme-v"#), false, &mut |piece| out.push(piece));
        routed.rewrite_response(Bytes::from_static(br#"2"}"#), true, &mut |piece| out.push(piece));
        let rewrites = routed.rewrites_response();
        routed.finish(Termination::Natural, None);
        (rewrites, String::from_utf8(out.concat()).expect("text"))
    };
    let (ours, theirs) = (r#"{"model":"acme"}"#.to_owned(), r#"{"model":"acme-v2"}"#.to_owned());
    let named = r#"{"model":"acme","prompt":"x"}"#;
    for kind in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
        assert_eq!(passed(&[rewrite], named, Some(kind), Some("identity")), (true, ours.clone()), "{kind}");
    }
    // No line of an event stream begins so.
    assert_eq!(passed(&[rewrite], named, Some("text/event-stream"), None), (true, theirs.clone()));
    for (headers, body, kind, coding) in [
        (&[rewrite][..], named, Some("application/json"), Some("gzip")),
        (&[rewrite], named, Some("text/plain"), None),
        (&[rewrite], named, None, None),
        (&[rewrite], r#"{"prompt":"names none"}"#, Some("application/json"), None),
        (&[rewrite], r#"{"model":"acme-v2","prompt":"x"}"#, Some("application/json"), None),
        (&[], named, Some("application/json"), None),
    ] {
        assert_eq!(passed(headers, body, kind, coding), (false, theirs.clone()), "{body} {kind:?} {coding:?}");
    }
}

#[test]
fn where_the_model_cannot_be_rewritten_the_header_says_what_is_asked_for_and_the_body_passes() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    let body = r#"{"model":"acme-chat","query":"x"}"#;
    let routed = bench.send_to("/v1/rerank", &[("x-llm-d-model-name-rewrite", "acme-rank")], body).expect("routed");
    assert_eq!(&*routed.body()[0], body.as_bytes());
    assert_eq!((&*routed.decision().model, &*routed.decision().target_model), ("", "acme-rank"));
    let routed = bench.send_to("/v1/models", &[("x-llm-d-model-name-rewrite", "acme-rank")], "").expect("routed");
    assert_eq!(&*routed.decision().target_model, "", "what has no body asks for no model");
}

#[test]
fn a_gzipped_request_is_looked_into_and_forwarded_as_received() {
    let bench = bench(&["a", "b"], DefaultProfile::Serve, "");
    let body = format!("{{\"model\":\"m\",\"prompt\":\"{}\"}}", prompt(9));
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(body.as_bytes()).expect("in memory");
    let gz = Bytes::from(gz.finish().expect("in memory"));
    let headers = [("content-encoding", "gzip")];
    let first = bench.send(&headers, gz.clone()).expect("routed");
    assert_eq!(first.body()[..], std::slice::from_ref(&gz)[..]);
    let home = served(&first);
    first.finish(Termination::Natural, None);
    let plain = bench.send(&[], body).expect("routed");
    assert_eq!(served(&plain), home, "the same prompt in plain text matches it");
    assert!(plain.decision().outcome.lock().cached_tokens_predicted > 0);
    let refused = bench.send(&headers, gz.slice(..gz.len() / 2)).expect_err("cut short");
    assert_eq!(refused.refusal.code.status(), 400);
}

#[test]
fn a_rewrite_names_the_model_in_a_body_that_names_none_and_refuses_a_compressed_one() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    let rewrite = ("x-llm-d-model-name-rewrite", "a \"b\"");
    let routed = bench.send(&[rewrite], r#" {"prompt":"x"}"#).expect("routed");
    let sent: Vec<u8> = routed.body().iter().flat_map(|c| c.to_vec()).collect();
    assert_eq!(String::from_utf8(sent).expect("text"), r#" {"prompt":"x","model":"a \"b\""}"#);
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(br#"{"model":"m","prompt":"x"}"#).expect("in memory");
    let refused =
        bench.send(&[rewrite, ("content-encoding", "gzip")], gz.finish().expect("in memory")).expect_err("refused");
    assert_eq!(refused.refusal.code.status(), 400);
}

#[test]
fn a_body_of_several_gzip_members_is_read_and_one_of_another_coding_passes_unread() {
    let bench = bench(&["a", "b"], DefaultProfile::Serve, "");
    let member = |text: &str| {
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(text.as_bytes()).expect("in memory");
        gz.finish().expect("in memory")
    };
    let two = [member("{\"model\":\"m\","), member("\"prompt\":\"hello\"}")].concat();
    let routed = bench.send(&[("content-encoding", "x-gzip")], two).expect("routed");
    assert_eq!(&*routed.decision().model, "m");
    let routed = bench.send(&[("content-encoding", "zstd")], "not looked into").expect("routed");
    assert_eq!(&*routed.decision().model, "");
    let zeros = member(&" ".repeat(40 << 20));
    assert!(zeros.len() < 1 << 20);
    let refused = bench.send(&[("content-encoding", "gzip")], zeros).expect_err("refused");
    assert_eq!(refused.refusal.code.status(), 413);
}

#[test]
fn if_available_is_refused_where_nothing_is_cached() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    let body = format!("{{\"model\":\"m\",\"prompt\":\"{}\"}}", prompt(1));
    let prefer = [("prefer", "return=minimal, If-Available; q=1")];
    let refused = bench.send(&prefer, body.clone()).expect_err("nothing is cached");
    assert_eq!(refused.refusal.code.status(), 412);
    bench.send(&[], body.clone()).expect("routed").finish(Termination::Natural, None);
    assert!(bench.send(&prefer, body).is_ok());
    let config = "plugins:\n- {type: queue-scorer}\n";
    let without = self::bench(&["a"], DefaultProfile::Serve, config);
    assert!(without.send(&prefer, r#"{"model":"m","prompt":"x"}"#).is_ok(), "nobody knows what is cached");
}

#[test]
fn an_unclaimed_path_is_routed_by_load_and_passes_unread() {
    let bench = bench(&["a", "b"], DefaultProfile::Serve, "");
    bench.scraped("a", 9.0, 0.0);
    let routed = bench.send_to("/v1/rerank", &[], "anything \u{0} at all").expect("routed");
    assert_eq!(served(&routed), "b");
    assert_eq!(&*routed.body()[0], b"anything \0 at all");
}

#[test]
fn what_is_known_of_an_endpoint_leaves_with_it() {
    let bench = bench(&["a"], DefaultProfile::Serve, "");
    bench.prompt(&prompt(1)).expect("routed").finish(Termination::Natural, None);
    let prefix = Arc::clone(&bench.pool.active().compiled.prefix[0].state);
    assert!(!prefix.index.is_empty());
    assert!(bench.page().contains("endpoint_name=\"a\""));
    bench.pool.fleet.remove(&EndpointName::new("default", "a"));
    assert_eq!(prefix.index.len(), 0);
    assert!(!bench.page().contains("endpoint_name=\"a\""));
}

#[test]
fn activating_another_configuration_keeps_what_was_learned() {
    let bench = bench(&["a", "b"], DefaultProfile::Serve, "");
    let routed = bench.prompt(&prompt(1)).expect("routed");
    let home = served(&routed);
    routed.finish(Termination::Natural, None);
    let states = Arc::<LearnedStates>::default();
    let options = CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states };
    let fresh = compile(b"", &options, &mut Faults::new()).expect("good");
    assert_eq!(bench.pool.activate(fresh), 2);
    assert_eq!(bench.prompt(&prompt(1)).expect("routed").decision().config_version, 2);
    // Compiled over the pool's own states, the index is still there.
    let kept = bench.pool.recompile(b"", false, DefaultProfile::Epp, &mut Faults::new()).expect("good");
    bench.pool.activate(kept);
    let routed = bench.prompt(&prompt(1)).expect("routed");
    assert_eq!(served(&routed), home);
    assert!(routed.decision().outcome.lock().cached_tokens_predicted > 0);
}
