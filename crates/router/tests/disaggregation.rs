//! Requests that several engines serve, through the router (disaggregation 9.1), and what is made of what they used.

use bytes::Bytes;
use pointsman_config::Faults;
use pointsman_core::{Clock, EndpointName, ManualClock, Nanos};
use pointsman_fleet::{EndpointMeta, Scraped};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, Refused, RequestHead, Routed};
use pointsman_scheduling::Termination;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

struct Bench {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
}

/// Endpoints by name and role; `plugins` and `profiles` of the document.
fn bench(endpoints: &[(&str, &str)], plugins: &str, profiles: &str) -> Bench {
    let config = format!(
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n- type: decode-filter\n- type: prefill-filter\n\
         - type: encode-filter\n{plugins}schedulingProfiles:\n{profiles}"
    );
    let states = Arc::<LearnedStates>::default();
    let options =
        CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::clone(&states) };
    let mut faults = Faults::new();
    let compiled = compile(config.as_bytes(), &options, &mut faults);
    let compiled =
        compiled.unwrap_or_else(|| panic!("{:?}", faults.iter().map(ToString::to_string).collect::<Vec<_>>()));
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let options = PoolOptions { clock: clock.clone(), states, stale_after: Duration::ZERO, ..PoolOptions::default() };
    let pool = Pool::new(options, compiled);
    for (i, (name, role)) in endpoints.iter().enumerate() {
        let name = EndpointName::new("default", *name);
        let mut meta = EndpointMeta::new(name.clone(), format!("10.0.0.{}", i + 1), 8000);
        meta.labels = std::iter::once(("llm-d.ai/role", *role)).collect();
        pool.fleet.upsert(meta);
        let scraped =
            Scraped { waiting: Some(i as f64), running: Some(1.0), kv_usage: Some(0.1), ..Scraped::default() };
        pool.fleet.snapshot().named(&name).expect("just added").engine.apply(clock.now(), &scraped);
    }
    Bench { pool, clock }
}

const THREE: &[(&str, &str)] = &[("p", "prefill"), ("d", "decode"), ("e", "encode")];

const PROFILES: &str = "- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]}\n\
    - {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer}]}\n\
    - {name: encode, plugins: [{pluginRef: encode-filter}, {pluginRef: queue-scorer}]}\n";

fn handler(parameters: &str) -> String {
    format!(
        "- type: always-disagg-pd-decider\n- type: always-disagg-multimodal-decider\n- type: mm-embeddings-cache-producer\n\
         - {{type: prefix-based-pd-decider, parameters: {{nonCachedTokens: 64}}}}\n\
         - {{type: disagg-profile-handler, parameters: {parameters}}}\n"
    )
}

const BOTH: &str = "{deciders: {prefill: always-disagg-pd-decider, encode: always-disagg-multimodal-decider}}";

impl Bench {
    fn send(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Result<Routed, Refused> {
        let mut reading = self.pool.begin(RequestHead {
            transport: "gateway",
            method: "POST".into(),
            path: path.into(),
            headers: headers.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect(),
            received: self.clock.now(),
            subset: None,
        });
        reading.push(Bytes::from(body.to_string()));
        reading.decide()
    }

    fn prompt(&self, text: &str) -> Result<Routed, Refused> {
        self.send("/v1/completions", &[], &json!({"model": "m", "prompt": text}))
    }

    fn image(&self) -> Result<Routed, Refused> {
        let image = json!({"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}});
        // An item counts once.
        let body = json!({"model": "m", "messages": [{"role": "user", "content": [image, image]}]});
        self.send("/v1/chat/completions", &[], &body)
    }

    fn load(&self, name: &str) -> u64 {
        let snapshot = self.pool.fleet.snapshot();
        snapshot.named(&EndpointName::new("default", name)).expect("it is there").load.requests()
    }

    fn counted(&self, series: &str, labels: &[&str]) -> f64 {
        let page = self.pool.metrics.render(&self.pool.fleet.snapshot(), self.clock.now(), false);
        let lines = page.lines().filter(|l| l.starts_with(series) && labels.iter().all(|label| l.contains(label)));
        lines.filter_map(|l| l.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

fn told<'a>(routed: &'a Routed, name: &str) -> Option<&'a str> {
    routed.added_headers().iter().find(|(n, _)| *n == name).map(|(_, value)| &**value)
}

#[test]
fn e5_three_engines_serve_an_image_and_each_is_charged() {
    let bench = bench(THREE, &handler(BOTH), PROFILES);
    let mut routed = bench.image().expect("routed");
    assert_eq!(routed.endpoint().name().name.as_ref(), "d");
    assert_eq!(told(&routed, "x-prefiller-host-port"), Some("10.0.0.1:8000"));
    assert_eq!(told(&routed, "x-encoder-hosts-ports"), Some("10.0.0.3:8000"));
    let decided = ["decision_type=\"encode-prefill-decode\"", "plugin_type=\"disagg-profile-handler\""];
    assert_eq!(bench.counted("llm_d_epp_disagg_decision_total", &decided), 1.0);
    assert_eq!(bench.load("d"), 1);
    routed.response_head(200, None, None);
    routed.finish(Termination::Natural, None);
    assert_eq!(["d", "p", "e"].map(|name| bench.load(name)), [0; 3]);

    // Both who decoded and who encoded hold the image from now on.
    let cold = bench.counted("llm_d_epp_encoder_cache_hits_total", &[]);
    let routed = bench.image().expect("routed");
    let queries = bench.counted("llm_d_epp_encoder_cache_queries_total", &["modality=\"image\""]);
    let hits = |pod: &str| bench.counted("llm_d_epp_encoder_cache_hits_total", &[pod]);
    assert_eq!((cold, queries), (0.0, 2.0));
    assert_eq!((hits("default/d"), hits("default/e"), hits("default/p")), (1.0, 1.0, 0.0));
    bench.pool.fleet.remove(&EndpointName::new("default", "e"));
    assert_eq!((hits("default/d"), hits("default/e")), (1.0, 0.0));
    drop(routed);
}

#[test]
fn e6_a_text_is_not_encoded() {
    let bench = bench(THREE, &handler(BOTH), PROFILES);
    let routed = bench.prompt("hello").expect("routed");
    assert_eq!(told(&routed, "x-encoder-hosts-ports"), None);
    assert!(told(&routed, "x-prefiller-host-port").is_some());
    assert_eq!(bench.counted("llm_d_epp_disagg_decision_total", &["decision_type=\"prefill-decode\""]), 1.0);
    assert_eq!(bench.counted("llm_d_epp_encoder_cache_queries_total", &[]), 0.0);
}

#[test]
fn e3_without_a_prefill_endpoint_a_request_is_refused_unless_decoding_alone_will_do() {
    let two = &THREE[1..];
    let bench_of = |policy: &str| {
        let parameters = format!("{{onPrefillUnavailable: {policy}, deciders: {{prefill: always-disagg-pd-decider}}}}");
        bench(two, &handler(&parameters), PROFILES)
    };
    let refused = bench_of("fail").prompt("hello").expect_err("nobody computes the prompt");
    assert_eq!(
        (refused.refusal.code.status(), refused.refusal.reason.map(|r| r.as_str())),
        (429, Some("rejected-saturated"))
    );
    let bench = bench_of("local");
    assert_eq!(told(&bench.prompt("hello").expect("routed"), "x-prefiller-host-port"), None);
    assert_eq!(bench.counted("llm_d_epp_disagg_decision_total", &["decision_type=\"decode-only\""]), 1.0);
}

#[test]
fn e12_a_client_that_prefers_no_answer_is_refused_by_the_deciders_measure() {
    let bench = bench(THREE, &handler("{deciders: {prefill: prefix-based-pd-decider}}"), PROFILES);
    let ask = |text: &str| {
        let body = json!({"model": "m", "prompt": text});
        bench.send("/v1/completions", &[("prefer", "respond-async, If-Available;x=1")], &body)
    };
    let long = "x".repeat(4 * 256);
    assert_eq!(ask(&long).expect_err("cold").refusal.code.status(), 412);
    assert!(ask("short").is_ok(), "fewer tokens than the decider minds");
    let mut routed = bench.prompt(&long).expect("routed");
    assert!(told(&routed, "x-prefiller-host-port").is_some());
    routed.dispatched();
    drop(routed);
    assert!(ask(&long).is_ok(), "warm");
}

#[test]
fn e10_the_rank_is_told_beside_the_port_of_its_front() {
    let plugins = "- {type: data-parallel-profile-handler, parameters: {primaryPort: 8200}}\n";
    let bench = bench(&[("d", "decode")], plugins, "- {name: default, plugins: [{pluginRef: queue-scorer}]}\n");
    let routed = bench.prompt("hello").expect("routed");
    assert_eq!((routed.port(), told(&routed, "x-data-parallel-host-port")), (Some(8200), Some("10.0.0.1:8000")));
}

#[test]
fn requests_in_flight_are_counted_at_every_engine_and_at_the_prefill_engine_until_the_first_byte() {
    let plugins = format!("- type: inflight-load-producer\n{}", handler(BOTH));
    let bench = bench(THREE, &plugins, PROFILES);
    let mut routed = bench.image().expect("routed");
    let counted = |name: &str| {
        let gauge = bench.counted("llm_d_epp_inflight_requests", &[&format!("endpoint_name=\"{name}\"")]);
        (bench.load(name), gauge)
    };
    assert_eq!(["d", "p", "e"].map(counted), [(1, 1.0); 3]);
    routed.response_head(200, None, None);
    routed.response_chunk(b"{");
    assert_eq!(["d", "p", "e"].map(counted), [(1, 1.0), (0, 0.0), (1, 1.0)]);
    routed.finish(Termination::Natural, None);
    assert_eq!(["d", "p", "e"].map(counted), [(0, 0.0); 3]);
}

#[test]
fn e11_who_holds_more_of_a_prompt_than_its_engine_is_told() {
    let endpoints = &[("a", "decode"), ("b", "decode")];
    let profiles = "- {name: default, plugins: [{pluginRef: queue-scorer}]}\n";
    let bench = bench(endpoints, "- type: p2p-source-producer\n", profiles);
    let text = "x".repeat(4 * 256);
    let mut first = bench.prompt(&text).expect("routed");
    assert_eq!((&*first.endpoint().name().name, told(&first, "x-kv-cache-source-host-port")), ("a", None));
    first.dispatched();
    drop(first);
    // Now the other one is idle.
    let busy = Scraped { waiting: Some(9.0), ..Scraped::default() };
    let snapshot = bench.pool.fleet.snapshot();
    snapshot.named(&EndpointName::new("default", "a")).expect("it is there").engine.apply(bench.clock.now(), &busy);
    let mut second = bench.prompt(&text).expect("routed");
    assert_eq!(&*second.endpoint().name().name, "b");
    assert_eq!(told(&second, "x-kv-cache-source-host-port"), Some("10.0.0.1:8000"));
    second.dispatched();
    drop(second);
    // Both hold it: a source would gain nothing.
    assert_eq!(told(&bench.prompt(&text).expect("routed"), "x-kv-cache-source-host-port"), None);
}

#[test]
fn what_a_request_used_becomes_an_attribute_of_its_record() {
    let plugins = "- {type: request-attribute-reporter, parameters: {attributes: [{key: {namespace: my.ns, name: cost}, \
        expression: 'usage.prompt_tokens + 4 * usage.completion_tokens', condition: 'usage.total_tokens > 5'}]}}\n";
    let bench = bench(&[("d", "decode")], plugins, "- {name: default, plugins: [{pluginRef: queue-scorer}]}\n");
    let outcome = |usage: Value, finish: bool| {
        let mut routed = bench.prompt("hello").expect("routed");
        let decision = Arc::clone(routed.decision());
        routed.response_head(200, Some("application/json"), None);
        routed.response_chunk(json!({"usage": usage}).to_string().as_bytes());
        if finish {
            let told: Vec<i64> = routed.attributes().iter().map(|a| a.value).collect();
            assert_eq!(told, routed.attributes().iter().map(|a| a.value).collect::<Vec<_>>(), "asked twice");
            routed.finish(Termination::Natural, None);
        } else {
            drop(routed);
        }
        serde_json::to_value(&*decision).expect("JSON")["outcome"].clone()
    };
    let used = json!({"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9});
    for finish in [true, false] {
        let outcome = outcome(used.clone(), finish);
        assert_eq!(outcome["attributes"], json!({"my.ns": {"cost": 15}}));
        assert_eq!((&outcome["prompt_tokens"], &outcome["completion_tokens"]), (&json!(7), &json!(2)));
    }
    let few = outcome(json!({"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}), true);
    assert_eq!(few["attributes"], json!({}));
}

#[test]
fn an_agent_is_who_a_request_is_counted_for_unless_a_header_says_otherwise() {
    let bench = bench(
        &[("d", "decode")],
        "- type: agent-identity\n",
        "- {name: default, plugins: [{pluginRef: queue-scorer}]}\n",
    );
    let body = json!({"model": "m", "prompt": "hello"});
    for (headers, fairness) in [
        (&[("session-id", "s1")][..], "s1"),
        (&[("session-id", "s1"), ("x-gateway-inference-fairness-id", "old")], "old"),
        (&[], "default-flow"),
    ] {
        drop(bench.send("/v1/completions", headers, &body).expect("routed"));
        assert_eq!(
            bench.counted("llm_d_epp_request_total", &[&format!("fairness_id=\"{fairness}\"")]),
            1.0,
            "{fairness}"
        );
    }
}
