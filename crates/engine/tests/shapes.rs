//! Answers have the shape of those recorded from a real vLLM: status, content type, keys in order, types of values, events in order.

mod support;

use hyper::Method;
use pointsman_engine::EngineOptions;
use support::{Server, options, recorded, skeleton, start, stream_skeleton};

async fn tiny() -> Server {
    start(EngineOptions {
        served_model_name: vec!["tiny".into(), "tiny-alias".into()],
        model: "models/tiny".into(),
        lora_modules: vec!["adapter-a=models/adapter-a".into(), "adapter-b=models/adapter-b".into()],
        max_loras: 2,
        max_model_len: 2_048,
        ..options()
    })
    .await
}

/// Replays a recorded request; its head must agree.
async fn replay(server: &Server, name: &str) -> (String, String) {
    let (path, body, head, want) = recorded(name);
    let body = match body.strip_suffix('}') {
        // Real engines stop where they like; here the length is demanded where one is given.
        Some(open) if body.contains("tokens\":") => format!("{open},\"ignore_eos\":true}}"),
        _ => body,
    };
    let method = if body.is_empty() && !path.contains("reset") { Method::GET } else { Method::POST };
    let got = server.send(method, &path, &[], &body).await;
    let status: u16 = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status line");
    assert_eq!(got.status.as_u16(), status, "{name}: {}", got.body);
    if let Some(kind) = head.lines().find_map(|l| l.strip_prefix("content-type: ")) {
        assert_eq!(got.headers["content-type"], kind, "{name}");
    }
    (got.body, want)
}

#[tokio::test]
async fn whole_answers_have_the_recorded_keys_in_the_recorded_order() {
    let server = tiny().await;
    for name in [
        "chat",
        "completions",
        "completions-prompt-array",
        "responses",
        "messages",
        "messages-count-tokens",
        "models-lora",
        "tokenize-prompt-strs",
        "render-chat",
        "render-chat-salt-lora",
        "render-completions",
        "render-messages",
        "render-responses",
    ] {
        let (got, want) = replay(&server, name).await;
        // Another tokenizer: lists may have other lengths.
        let lists = |json: &str| {
            let mut s = skeleton(json);
            while s.contains("1,1") || s.contains("text,text") {
                s = s.replace("1,1", "1").replace("text,text", "text");
            }
            s
        };
        assert_eq!(lists(&got), lists(want.trim_end()), "{name}");
    }
}

#[tokio::test]
async fn streams_have_the_recorded_events_in_the_recorded_order() {
    // Slow enough that tokens come one by one.
    let server = tiny().await;
    server.handle.configure(&serde_json::json!({"inter-token-latency": "20ms"})).expect("a valid update");
    for name in [
        "chat-stream",
        "chat-stream-usage",
        "completions-stream",
        "completions-stream-usage",
        "completions-stream-usage-continuous",
        "messages-stream",
        "responses-stream",
    ] {
        let (got, want) = replay(&server, name).await;
        assert_eq!(stream_skeleton(&got), stream_skeleton(&want), "{name}");
        assert!(got.ends_with("\n\n"), "{name}");
    }
}

#[tokio::test]
async fn fixed_answers_are_the_recorded_bytes() {
    let server = tiny().await;
    for name in [
        "error-404",
        "error-405",
        "error-unknown-model",
        "error-too-long",
        "error-bad-temperature",
        "health",
        "version",
        "dev-reset_prefix_cache",
        "lora-load-again",
    ] {
        let (got, want) = replay(&server, name).await;
        assert_eq!(got, want.trim_end(), "{name}");
    }
    server.post("/v1/unload_lora_adapter", r#"{"lora_name":"adapter-b"}"#).await;
    let (got, want) = replay(&server, "lora-load").await;
    assert_eq!(got, want.trim_end());
}

#[tokio::test]
async fn an_empty_prompt_is_a_bad_request() {
    let server = tiny().await;
    for body in [r#"{"model":"tiny","prompt":""}"#, r#"{"model":"tiny"}"#, r#"{"model":"tiny","prompt":"#, "[]", ""] {
        let got = server.post("/v1/completions", body).await;
        assert_eq!(got.status.as_u16(), 400, "{body}");
        assert_eq!(got.json()["error"]["code"], 400, "{body}");
    }
}

/// Every family of ours that the real page also has, has the real page's label names there.
#[tokio::test]
async fn the_metrics_page_has_real_names_and_labels() {
    let server = tiny().await;
    server
        .post(
            "/v1/chat/completions",
            r#"{"model":"adapter-a","messages":[{"role":"user","content":"hi"}],"max_tokens":3}"#,
        )
        .await;
    let page = server.get("/metrics").await;
    assert_eq!(page.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let real = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../testdata/fixtures/vllm/metrics/under-load-lora.prom"
    ))
    .expect("a fixture");
    let series = |page: &str| -> std::collections::BTreeMap<String, Vec<String>> {
        page.lines()
            .filter(|l| l.starts_with("vllm:"))
            .map(|l| {
                let (name, rest) = l.split_once('{').expect("labels");
                let labels = rest.rsplit_once('}').expect("labels").0;
                let names = labels.split("\",").map(|l| l.split('=').next().unwrap_or_default().to_owned()).collect();
                (name.to_owned(), names)
            })
            .collect()
    };
    let (ours, real) = (series(&page.body), series(&real));
    for (name, labels) in &ours {
        match real.get(name) {
            Some(want) if name != "vllm:cache_config_info" => assert_eq!(labels, want, "{name}"),
            Some(want) => assert!(labels.iter().all(|l| want.contains(l)), "{name}: {labels:?}"),
            // Renamed in newer releases; older ones and many dashboards have it.
            None => assert!(name.starts_with("vllm:time_per_output_token_seconds"), "{name} is not a real name"),
        }
    }
    for name in [
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:kv_cache_usage_perc",
        "vllm:cache_config_info",
        "vllm:lora_requests_info",
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_queries_total",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
        "vllm:time_to_first_token_seconds_bucket",
        "vllm:inter_token_latency_seconds_bucket",
        "vllm:time_per_output_token_seconds_sum",
        "vllm:request_time_per_output_token_seconds_count",
        "vllm:e2e_request_latency_seconds_sum",
        "vllm:request_queue_time_seconds_sum",
        "vllm:request_inference_time_seconds_sum",
        "vllm:request_prefill_time_seconds_sum",
        "vllm:request_decode_time_seconds_sum",
        "vllm:request_prompt_tokens_sum",
        "vllm:request_generation_tokens_sum",
        "vllm:request_params_max_tokens_sum",
        "vllm:request_max_num_generation_tokens_sum",
    ] {
        assert!(ours.contains_key(name), "{name}");
    }
}
