//! What the engine does over HTTP: cache, queue, streams, adapters, failures, life and death.

mod support;

use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{Method, Request};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pointsman_engine::{EngineOptions, FakeLoras, FakeMetrics, Mode, StepModel};
use serde_json::json;
use support::{Server, options, start};

fn chat(model: &str, text: &str, output: u64, more: &str) -> String {
    format!(
        r#"{{"model":"{model}","messages":[{{"role":"user","content":"{text}"}}],"max_tokens":{output},"ignore_eos":true{more}}}"#
    )
}

fn words(seed: u32, bytes: usize) -> String {
    (0..).flat_map(|i| format!("w{seed}x{i} ").into_bytes()).map(char::from).take(bytes).collect()
}

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn the_second_equal_prompt_is_cached_up_to_its_last_whole_block() {
    let server = start(options()).await;
    // `user` and 1,276 bytes are 320 tokens: twenty whole blocks, of which the last is computed again.
    let body = chat("tiny", &words(1, 1_276), 3, "");
    let first = server.post(CHAT, &body).await;
    assert_eq!(first.json()["usage"]["prompt_tokens"], 320);
    assert_eq!(first.cached(), 0);
    assert_eq!(server.post(CHAT, &body).await.cached(), 304);
    // One token more: all twenty blocks are of use.
    assert_eq!(server.post(CHAT, &chat("tiny", &words(1, 1_280), 3, "")).await.cached(), 320);
    assert_eq!(server.metric("vllm:prefix_cache_queries_total", "").await, 961.0);
    assert_eq!(server.metric("vllm:prefix_cache_hits_total", "").await, 624.0);
}

#[tokio::test]
async fn a_growing_conversation_finds_its_earlier_turns() {
    let server = start(options()).await;
    let mut messages = Vec::new();
    let mut before = 0;
    for turn in 0..5 {
        messages.push(json!({"role": "user", "content": words(turn, 1_300)}));
        let got =
            server.post(CHAT, &json!({"messages": messages, "max_tokens": 40, "ignore_eos": true}).to_string()).await;
        assert_eq!(got.status.as_u16(), 200);
        assert_eq!(got.cached(), before / 16 * 16, "turn {turn}");
        before = got.json()["usage"]["prompt_tokens"].as_u64().expect("a count");
        let answer = got.json()["choices"][0]["message"]["content"].as_str().expect("text").to_owned();
        assert_eq!(answer.len(), 160, "forty tokens by the four-byte rule");
        messages.push(json!({"role": "assistant", "content": answer}));
    }
}

#[tokio::test]
async fn a_small_cache_forgets_the_least_recently_used_prompt() {
    let server = start(EngineOptions { kv_cache_size: Some(60), ..options() }).await;
    let prompts: Vec<String> = (0..4).map(|i| chat("tiny", &words(i, 1_280), 1, "")).collect();
    for prompt in &prompts {
        assert_eq!(server.post(CHAT, prompt).await.cached(), 0);
    }
    assert!(server.post(CHAT, &prompts[3]).await.cached() >= 304, "the youngest is there");
    assert_eq!(server.post(CHAT, &prompts[0]).await.cached(), 0, "the oldest is gone");
}

#[tokio::test]
async fn reset_prefix_cache_forgets_everything() {
    let server = start(options()).await;
    let body = chat("tiny", &words(1, 1_276), 3, "");
    server.post(CHAT, &body).await;
    assert_eq!(server.post("/reset_prefix_cache", "").await.json(), json!({"success": true}));
    assert_eq!(server.post(CHAT, &body).await.cached(), 0);
}

#[tokio::test]
async fn salt_and_adapter_have_caches_of_their_own_and_aliases_share_one() {
    let options = EngineOptions {
        served_model_name: vec!["tiny".into(), "other".into()],
        lora_modules: vec!["ada=p".into()],
        ..options()
    };
    let server = start(options).await;
    let text = words(1, 1_280);
    for (model, more, cached) in
        [("tiny", "", 0), ("other", "", 320), ("ada", "", 0), ("ada", "", 320), ("tiny", r#","cache_salt":"s""#, 0)]
    {
        assert_eq!(server.post(CHAT, &chat(model, &text, 1, more)).await.cached(), cached, "{model} {more}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_streams_run_at_once_and_each_gets_its_tokens() {
    let server = start(EngineOptions { inter_token_latency: Duration::from_millis(2), ..options() }).await;
    let calls = (0..200).map(|i| {
        let body = chat("tiny", &words(i, 200), 30, r#","stream":true,"stream_options":{"include_usage":true}"#);
        let server = &server;
        async move { server.post(CHAT, &body).await }
    });
    for got in futures_util::future::join_all(calls).await {
        let data = got.data();
        assert_eq!(data.last(), Some(&"[DONE]"));
        let usage: serde_json::Value = serde_json::from_str(data[data.len() - 2]).expect("JSON");
        assert_eq!(usage["usage"]["completion_tokens"], 30);
        let text: usize = data[..data.len() - 2]
            .iter()
            .map(|d| serde_json::from_str::<serde_json::Value>(d).expect("JSON"))
            .map(|d| d["choices"][0]["delta"]["content"].as_str().expect("text").len())
            .sum();
        assert_eq!(text, 120);
    }
    assert_eq!(server.metric("vllm:request_success_total", "length").await, 200.0);
    assert_eq!(server.metric("vllm:generation_tokens_total", "").await, 6_000.0);
}

#[tokio::test]
async fn a_client_that_leaves_cancels_its_request() {
    let server = start(EngineOptions { inter_token_latency: Duration::from_millis(20), ..options() }).await;
    for more in [r#","stream":true"#, ""] {
        let body = chat("tiny", "hello", 100_000, more);
        let mut call = Box::pin(server.open(CHAT, &body));
        if more.is_empty() {
            let _ = tokio::time::timeout(Duration::from_millis(100), &mut call).await;
            server.until("vllm:num_requests_running", 1.0).await;
            drop(call);
        } else {
            let mut response = call.await;
            response.body_mut().frame().await.expect("a chunk").expect("a chunk");
            server.until("vllm:num_requests_running", 1.0).await;
            drop(response);
        }
        server.until("vllm:num_requests_running", 0.0).await;
    }
    assert_eq!(server.metric("vllm:request_success_total", "abort").await, 2.0);
    assert_eq!(server.metric("vllm:kv_cache_usage_perc", "").await, 0.0);
}

#[tokio::test]
async fn requests_beyond_the_seats_wait_and_beyond_the_queue_get_429() {
    let server = start(EngineOptions {
        max_num_seqs: 1,
        max_waiting_queue_length: 1,
        time_to_first_token: Duration::from_millis(700),
        ..options()
    })
    .await;
    let body = chat("tiny", "hello", 1, "");
    let (a, b, c) = tokio::join!(server.post(CHAT, &body), server.post(CHAT, &body), async {
        server.until("vllm:num_requests_waiting", 1.0).await;
        server.post(CHAT, &body).await
    });
    assert_eq!((a.status.as_u16(), b.status.as_u16(), c.status.as_u16()), (200, 200, 429));
    assert_eq!(c.json()["error"]["type"], "RateLimitError");
    assert_eq!(server.metric("vllm:admission_rejections_total", "").await, 1.0);
}

#[tokio::test]
async fn an_adapter_without_a_slot_waits_and_the_page_says_so() {
    let server = start(EngineOptions {
        time_to_first_token: Duration::from_millis(700),
        lora_modules: vec!["a=p/a".into()],
        ..options()
    })
    .await;
    let load = server.post("/v1/load_lora_adapter", r#"{"lora_name":"b","lora_path":"p/b"}"#).await;
    assert_eq!(load.body, "Success: LoRA adapter 'b' added successfully.");
    let (a, b) = (chat("a", "hello", 1, ""), chat("b", "hello", 1, ""));
    let (a, b, ()) =
        tokio::join!(
            server.post(CHAT, &a),
            async {
                server.until("vllm:num_requests_running", 1.0).await;
                server.post(CHAT, &b).await
            },
            async {
                server.until("vllm:num_requests_waiting", 1.0).await;
                let page = server.get("/metrics").await.body;
                assert!(page.contains(
                    r#"lora_requests_info{max_lora="1",running_lora_adapters="a",waiting_lora_adapters="b"}"#
                ));
            }
        );
    assert_eq!((a.status.as_u16(), b.status.as_u16()), (200, 200));
    let stamps: Vec<f64> = server
        .get("/metrics")
        .await
        .body
        .lines()
        .filter(|l| l.starts_with("vllm:lora_requests_info"))
        .map(|l| l.rsplit(' ').next().and_then(|v| v.parse().ok()).expect("a number"))
        .collect();
    assert!(stamps.len() >= 2 && stamps.is_sorted(), "combinations stay, the current one is the newest: {stamps:?}");
    let unload = server.post("/v1/unload_lora_adapter", r#"{"lora_name":"b"}"#).await;
    assert_eq!(unload.status.as_u16(), 200);
    assert_eq!(server.post(CHAT, &chat("b", "hello", 1, "")).await.status.as_u16(), 404);
    assert_eq!(server.post("/v1/unload_lora_adapter", r#"{"lora_name":"b"}"#).await.status.as_u16(), 404);
}

#[tokio::test]
async fn without_adapters_the_lora_family_does_not_exist() {
    let server = start(options()).await;
    assert!(!server.get("/metrics").await.body.contains("lora_requests_info"));
}

#[tokio::test]
async fn the_clients_request_id_becomes_the_answers_id() {
    let server =
        start(EngineOptions { pod_name: Some("pod-7".into()), pod_namespace: Some("ns".into()), ..options() }).await;
    for (path, body, id) in [
        (CHAT, chat("tiny", "hi", 1, ""), "chatcmpl-pd-1"),
        ("/v1/completions", r#"{"prompt":"hi","max_tokens":1}"#.to_owned(), "cmpl-pd-1"),
        ("/v1/responses", r#"{"input":"hi","max_output_tokens":1}"#.to_owned(), "resp_pd-1"),
        ("/v1/messages", chat("tiny", "hi", 1, ""), "chatcmpl-pd-1"),
    ] {
        let got = server.send(Method::POST, path, &[("x-request-id", "pd-1")], &body).await;
        assert_eq!(got.json()["id"], id, "{}", got.body);
        assert_eq!(got.headers["x-request-id"], "pd-1");
        let odd = server.send(Method::POST, path, &[("x-request-id", r#""a"b\c""#)], &body).await;
        assert!(odd.json()["id"].as_str().is_some_and(|id| id.ends_with(r#""a"b\c""#)), "{}", odd.body);
        assert_eq!(got.headers["x-inference-pod"], "pod-7");
        assert_eq!(got.headers["x-inference-namespace"], "ns");
        assert_eq!(got.headers["x-inference-port"], server.handle.addr().port().to_string().as_str());
    }
}

#[tokio::test]
async fn lengths_limits_and_finish_reasons() {
    let server = start(EngineOptions { max_model_len: 1_000, ..options() }).await;
    let got = server.post(CHAT, &chat("tiny", "hi", 7, "")).await.json();
    assert_eq!(
        (&got["choices"][0]["finish_reason"], &got["usage"]["completion_tokens"]),
        (&json!("length"), &json!(7))
    );
    let mut stopped = 0;
    for _ in 0..30 {
        let got = server.post("/v1/completions", r#"{"prompt":"hi","max_tokens":200}"#).await.json();
        let n = got["usage"]["completion_tokens"].as_u64().expect("a count");
        let reason = got["choices"][0]["finish_reason"].as_str().expect("text").to_owned();
        assert_eq!(reason, if n == 200 { "length" } else { "stop" });
        assert!((1..=200).contains(&n));
        stopped += u32::from(reason == "stop");
    }
    assert!(stopped > 0);
    for (more, param) in [
        (r#","max_tokens":0"#, "max_tokens"),
        (r#","max_tokens":-5"#, "max_tokens"),
        (r#","max_tokens":"x""#, "max_tokens"),
        (r#","max_tokens":1001"#, "max_tokens"),
        (r#","max_tokens":999"#, "prompt"),
        (r#","ignore_eos":true"#, "ignore_eos"),
        (r#","n":2"#, "n"),
        (r#","temperature":-1"#, "temperature"),
    ] {
        let got = server.post("/v1/completions", &format!(r#"{{"prompt":"hello there","stream":true{more}}}"#)).await;
        assert_eq!(got.status.as_u16(), 400, "{more}");
        assert_eq!(got.json()["error"]["param"], param, "{more}: {}", got.body);
    }
}

#[tokio::test]
async fn no_body_whatever_breaks_the_server() {
    let server = start(options()).await;
    let deep = "[".repeat(5_000);
    for path in [
        CHAT,
        "/v1/completions",
        "/v1/responses",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/embeddings",
        "/tokenize",
        "/v1/load_lora_adapter",
        "/v1/unload_lora_adapter",
        "/admin/config",
    ] {
        for body in [
            "",
            "{",
            "null",
            "[]",
            "\u{0}",
            r#"{"model":"\ud800","messages":"#,
            r#"{"model":7,"messages":7,"prompt":{},"input":7,"lora_name":[],"profile":9}"#,
            r#"{"model":"nope","messages":[],"prompt":[],"input":[]}"#,
            r#"{"max_tokens":1e300,"messages":[{"role":"user","content":"x"}],"prompt":"x","input":"x","dimensions":1e300}"#,
            &deep,
        ] {
            let got = server.post(path, body).await;
            let fine = path != CHAT && body.contains("1e300");
            assert!(got.status.is_client_error() || (fine && got.status.is_success()), "{path} {body}: {}", got.body);
        }
    }
    assert_eq!(server.get("/health").await.status.as_u16(), 200);
}

#[tokio::test]
async fn explicit_nulls_are_the_same_as_absence() {
    let server = start(options()).await;
    let got = server
        .post(CHAT, r#"{"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":null,"n":null,"temperature":null,"stream":null,"stream_options":null,"ignore_eos":null,"cache_salt":null}"#)
        .await;
    assert_eq!(got.status.as_u16(), 200, "{}", got.body);
}

#[tokio::test]
async fn details_can_be_switched_off() {
    let server = start(EngineOptions { no_prompt_tokens_details: true, ..options() }).await;
    assert!(server.post(CHAT, &chat("tiny", "hi", 1, "")).await.json()["usage"]["prompt_tokens_details"].is_null());
}

#[tokio::test]
async fn echo_says_what_was_said_last() {
    let server = start(EngineOptions { mode: Mode::Echo, ..options() }).await;
    let body = r#"{"messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"grüße, "},{"type":"text","text":"world"}]}],"max_tokens":1}"#;
    assert_eq!(server.post(CHAT, body).await.json()["choices"][0]["message"]["content"], "grüße, world");
    let got = server.post("/v1/completions", r#"{"prompt":["one","two \"2\""],"stream":true}"#).await;
    let mut texts = [String::new(), String::new()];
    for data in got.data().iter().filter(|d| d.starts_with('{')) {
        let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
        let index = data["choices"][0]["index"].as_u64().expect("an index") as usize;
        texts[index].push_str(data["choices"][0]["text"].as_str().expect("text"));
    }
    assert_eq!(texts, ["one", "two \"2\""]);
}

#[tokio::test]
async fn equal_prompts_get_equal_answers() {
    let server = start(options()).await;
    let body = chat("tiny", "hello", 20, "");
    let text = |answer: support::Answer| answer.json()["choices"][0]["message"]["content"].clone();
    let (a, b) = (text(server.post(CHAT, &body).await), text(server.post(CHAT, &body).await));
    assert_eq!(a, b);
    assert_ne!(a, text(server.post(CHAT, &chat("tiny", "hello you", 20, "")).await));
}

#[tokio::test]
async fn embeddings_follow_from_the_text() {
    let server = start(options()).await;
    let got =
        server.post("/v1/embeddings", r#"{"model":"tiny","input":["hello world","hello world","x"]}"#).await.json();
    let data = got["data"].as_array().expect("a list");
    assert_eq!((data.len(), data[0]["embedding"].as_array().map(Vec::len)), (3, Some(384)));
    assert_eq!(data[0]["embedding"], data[1]["embedding"]);
    assert_ne!(data[0]["embedding"], data[2]["embedding"]);
    assert_eq!(got["usage"]["prompt_tokens"], 7);
    let got = server.post("/v1/embeddings", r#"{"input":"x","encoding_format":"base64","dimensions":3}"#).await.json();
    assert_eq!(got["data"][0]["embedding"].as_str().map(str::len), Some(16));
    assert_eq!(server.post("/v1/embeddings", r#"{"input":[]}"#).await.status.as_u16(), 400);
}

#[tokio::test]
async fn tokens_are_counted_by_the_four_byte_rule_everywhere() {
    let server = start(options()).await;
    let tokenize = server.post("/tokenize", r#"{"prompt":"hello world"}"#).await.json();
    assert_eq!((&tokenize["count"], tokenize["tokens"].as_array().map(Vec::len)), (&json!(3), Some(3)));
    let messages = r#"{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"hello there"}]}"#;
    let counted = server.post("/v1/messages/count_tokens", messages).await.json()["input_tokens"].clone();
    assert_eq!(server.post("/v1/messages", messages).await.json()["usage"]["input_tokens"], counted);
    assert_eq!(server.post("/tokenize", messages).await.json()["count"], counted);
}

#[tokio::test]
async fn failures_are_injected_at_the_rate_and_of_the_kinds_set() {
    let server = start(options()).await;
    let body = chat("tiny", "hi", 1, "");
    let got = server.send(Method::POST, CHAT, &[("x-return-error", "418")], &body).await;
    assert_eq!((got.status.as_u16(), &got.json()["error"]["type"]), (418, &json!("APIConnectionError")));
    let set = server
        .post("/admin/config", r#"{"failure-injection-rate":50,"failure-types":["rate_limit","server_error"]}"#)
        .await;
    assert_eq!(set.json()["failure-injection-rate"], 50);
    let mut seen = std::collections::BTreeMap::new();
    for _ in 0..200 {
        *seen.entry(server.post(CHAT, &body).await.status.as_u16()).or_insert(0) += 1;
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [200, 429, 503]);
    assert!((60..140).contains(&seen[&200]), "{seen:?}");
}

#[tokio::test]
async fn admin_config_refuses_what_it_does_not_know_and_changes_nothing() {
    let server = start(options()).await;
    let before = server.get("/admin/config").await.body;
    let got = server.post("/admin/config", r#"{"healthy":false,"nonsense":1}"#).await;
    assert_eq!(got.status.as_u16(), 400);
    assert!(got.body.contains("nonsense"));
    assert_eq!(server.get("/admin/config").await.body, before);
    assert_eq!(server.get("/health").await.status.as_u16(), 200);
    server.post("/admin/config", r#"{"healthy":false}"#).await;
    assert_eq!(server.get("/health").await.status.as_u16(), 503);
}

#[tokio::test]
async fn metrics_can_be_frozen_and_freed() {
    let server = start(options()).await;
    server.handle.freeze(Some(FakeMetrics {
        running: 3.0,
        waiting: 2.0,
        kv_cache_usage: 0.45,
        loras: vec![FakeLoras { running: "a,b".into(), waiting: String::new(), timestamp: Some(7.0) }],
    }));
    assert_eq!(server.metric("vllm:kv_cache_usage_perc", "").await, 0.45);
    assert_eq!(server.metric("vllm:num_requests_waiting", "").await, 2.0);
    assert_eq!(server.metric("vllm:lora_requests_info", r#"running_lora_adapters="a,b""#).await, 7.0);
    server.post("/admin/config", r#"{"frozen":{"running":1}}"#).await;
    assert_eq!(server.metric("vllm:num_requests_running", "").await, 1.0);
    server.post("/admin/config", r#"{"frozen":null}"#).await;
    assert_eq!(server.metric("vllm:num_requests_running", "").await, 0.0);
}

#[tokio::test]
async fn ready_comes_after_the_startup_duration() {
    let server = start(EngineOptions { startup_duration: Duration::from_millis(1_000), ..options() }).await;
    assert_eq!(server.get("/health").await.status.as_u16(), 200);
    assert_eq!(server.get("/health/ready").await.status.as_u16(), 503);
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(server.get("/health/ready").await.status.as_u16(), 200);
}

#[tokio::test]
async fn a_body_beyond_the_limit_gets_413() {
    let server = start(EngineOptions { max_request_body_size_mb: 1, ..options() }).await;
    let got = server.post(CHAT, &chat("tiny", &"x".repeat(1 << 20), 1, "")).await;
    assert_eq!(got.status.as_u16(), 413);
}

#[tokio::test]
async fn a_profile_takes_the_time_of_its_hardware_and_speed_divides_it() {
    // 4,000 tokens on one H100 need about 128 ms, with 15 ms before the queue and nine more tokens of about 6.8 ms.
    let body = chat("tiny", &words(1, 15_996), 10, "");
    for (speed, least) in [(1.0, 190), (10.0, 19)] {
        let server = start(EngineOptions { profile: StepModel::parse("8b-h100").ok(), speed, ..options() }).await;
        server.get("/health").await;
        let start = Instant::now();
        server.post(CHAT, &body).await;
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(least), "speed {speed}: {took:?}");
        let ttft = server.metric("vllm:time_to_first_token_seconds_sum", "").await * speed;
        assert!((0.138..0.150).contains(&ttft), "{ttft} s of model time");
        server.post(CHAT, &body).await;
        let both = server.metric("vllm:time_to_first_token_seconds_sum", "").await * speed;
        assert!((0.020..0.030).contains(&(both - ttft)), "cached but for its last block: {} s", both - ttft);
    }
}

#[tokio::test]
async fn http_2_is_spoken_on_the_same_port() {
    let server = start(options()).await;
    let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let request = Request::post(format!("http://{}{CHAT}", server.handle.addr()))
        .body(Full::new(Bytes::from(chat("tiny", "hi", 2, r#","stream":true"#))))
        .expect("valid");
    let response = client.request(request).await.expect("an answer");
    assert_eq!(response.version(), hyper::Version::HTTP_2);
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    assert!(body.ends_with(b"data: [DONE]\n\n"));
}

async fn long_stream(server: &Server) -> hyper::Response<hyper::body::Incoming> {
    let mut response = server.open(CHAT, &chat("tiny", "hi", 40, r#","stream":true"#)).await;
    response.body_mut().frame().await.expect("a chunk").expect("a chunk");
    response
}

#[tokio::test]
async fn kill_breaks_every_connection_at_once() {
    let server = start(EngineOptions { inter_token_latency: Duration::from_millis(20), ..options() }).await;
    let response = long_stream(&server).await;
    server.handle.kill();
    let broken = tokio::time::timeout(Duration::from_secs(2), response.into_body().collect()).await.expect("at once");
    assert!(broken.is_err(), "the stream must not look complete");
    assert!(tokio::net::TcpStream::connect(server.handle.addr()).await.is_err(), "the port is closed");
}

#[tokio::test]
async fn stop_lets_running_streams_finish() {
    let server = start(EngineOptions { inter_token_latency: Duration::from_millis(10), ..options() }).await;
    let response = long_stream(&server).await;
    let addr = server.handle.addr();
    let (body, ()) = tokio::join!(response.into_body().collect(), server.handle.stop());
    assert!(body.expect("a whole body").to_bytes().ends_with(b"data: [DONE]\n\n"));
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}
