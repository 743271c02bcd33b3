//! Prompts that one engine computes and another decodes, as the sidecar between them asks for it.

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{options, start};

const PATHS: [&str; 2] = ["/v1/chat/completions", "/v1/completions"];

fn body(path: &str, more: &Value) -> String {
    let text = "word ".repeat(256);
    let mut body = json!({"max_tokens": 20, "ignore_eos": true});
    if path == PATHS[0] {
        body["messages"] = json!([{"role": "user", "content": text}]);
    } else {
        body["prompt"] = json!(text);
    }
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    body.to_string()
}

#[tokio::test]
async fn the_engine_that_computes_the_prompt_says_where_it_is_after_one_token() {
    let server = start(options()).await;
    for path in PATHS {
        let asked = json!({"kv_transfer_params": {"do_remote_decode": true, "do_remote_prefill": false}});
        let got = server.post(path, &body(path, &asked)).await.json();
        assert_eq!(got["choices"][0]["finish_reason"], "remote_decode", "{path}");
        assert_eq!(got["usage"]["completion_tokens"], 1);
        let params = &got["kv_transfer_params"];
        assert_eq!((&params["do_remote_prefill"], &params["do_remote_decode"]), (&json!(true), &json!(false)));
        let streamed = json!({"stream": true, "kv_transfer_params": {"do_remote_decode": true}});
        assert_eq!(server.post(path, &body(path, &streamed)).await.status.as_u16(), 400, "{path}");
        let plain = server.post(path, &body(path, &Value::Null)).await.json();
        assert_eq!(
            (&plain["choices"][0]["finish_reason"], &plain["kv_transfer_params"]),
            (&json!("length"), &Value::Null)
        );
    }
}

#[tokio::test]
async fn the_engine_that_decodes_waits_for_the_transfer_instead_of_computing_the_prompt() {
    let slow = Duration::from_secs(600);
    let server = start(pointsman_engine::EngineOptions {
        time_to_first_token: slow,
        kv_cache_transfer_latency: Duration::from_millis(80),
        kv_cache_transfer_time_per_token: Duration::from_micros(100),
        ..options()
    })
    .await;
    let asked = json!({"kv_transfer_params": {"do_remote_prefill": true, "remote_block_ids": ["DUMMY_ID"]}});
    for path in PATHS {
        let began = Instant::now();
        let got = server.post(path, &body(path, &asked)).await;
        let took = began.elapsed().as_secs_f64() * 1e3;
        assert_eq!(got.json()["usage"]["completion_tokens"], 20);
        // 320 tokens, or a few more.
        assert!((110.0..1_000.0).contains(&took), "{path}: {took} ms");
    }
    assert_eq!(server.metric("vllm:num_requests_waiting", "").await, 0.0);
}
