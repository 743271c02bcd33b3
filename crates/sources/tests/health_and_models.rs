//! Health checks and model lists, against a server that is told what to say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::time::Duration;

use common::{Engine, Fed, Reply, pause, until};
use pointsman_core::EndpointName;
use pointsman_fleet::{Condition, EndpointMeta};
use pointsman_sources::{HealthOptions, SourcesOptions};

/// Checks every 100 ms, nothing else.
fn checks(options: &mut SourcesOptions) {
    let interval = Duration::from_millis(100);
    options.health = Some(HealthOptions { interval, timeout: Duration::from_millis(300), ..HealthOptions::default() });
    options.models_interval = None;
}

fn only_checks() -> Fed {
    Fed::with(Vec::new(), checks)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_goes_out_after_two_failures_and_comes_back_after_one_success() {
    let fed = only_checks();
    let engine = Engine::start().await;
    engine.reply("/health", Reply::ok(""));
    let endpoint = fed.add(engine.meta("a"));
    until("ready", || endpoint.ready()).await;
    let checked = engine.asked("/health");
    engine.reply("/health", Reply::Plain(503, b"not now".to_vec()));
    until("out", || !endpoint.ready()).await;
    assert!(engine.asked("/health") >= checked + 2, "after two failures, not one");
    assert_eq!(endpoint.health.describe().reason.as_deref(), Some("health check failed: status 503"));
    engine.reply("/health", Reply::ok(""));
    until("back", || endpoint.ready()).await;
    assert_eq!(endpoint.health.describe().reason, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reason_says_in_words_what_happened() {
    let fed = only_checks();
    let engine = Engine::start().await;
    engine.reply("/health", Reply::Silence);
    let silent = fed.add(engine.meta("silent"));
    let gone = Engine::start().await;
    let meta = gone.meta("gone");
    drop(gone);
    let refused = fed.add(meta);
    let nowhere = fed.add(EndpointMeta::new(EndpointName::new("default", "nowhere"), "no-such-host.invalid", 80));
    for (endpoint, want) in [
        (&silent, "health check failed: no answer within 300 ms"),
        (&refused, "health check failed: connection refused"),
        (&nowhere, "health check failed: "),
    ] {
        let reason = || endpoint.health.reason(Condition::Probe).filter(|r| r.starts_with(want));
        until(want, || reason().is_some()).await;
        assert!(!endpoint.ready());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_does_not_exist_there_puts_nobody_out() {
    let fed = only_checks();
    let engine = Engine::start().await;
    let endpoint = fed.add(engine.meta("a"));
    until("ready", || endpoint.ready()).await;
    until("asked often", || engine.asked("/health") > 4).await;
    assert!(endpoint.ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_is_asked_at_the_path_of_its_kind_and_a_given_path_is_for_all() {
    let (by_kind, given) = (
        only_checks(),
        Fed::with(Vec::new(), |options| {
            checks(options);
            options.health.as_mut().unwrap().path = Some("/ping".into());
        }),
    );
    for (kind, path) in [("vllm", "/health"), ("triton", "/v2/health/ready")] {
        for (fed, path) in [(&by_kind, path), (&given, "/ping")] {
            let engine = Engine::start().await;
            engine.reply(path, Reply::ok(""));
            let mut meta = engine.meta(kind);
            meta.labels = [("llm-d.ai/engine-type", kind)].into_iter().collect();
            let endpoint = fed.add(meta);
            until("asked", || engine.asked(path) > 1).await;
            assert!(endpoint.ready());
            assert_eq!(engine.seen.requests.lock().len(), 1, "and nowhere else");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_is_not_ready_before_its_first_answer() {
    let fed = only_checks();
    let engine = Engine::start().await;
    engine.reply("/health", Reply::Silence);
    let endpoint = fed.add(engine.meta("a"));
    assert!(!endpoint.ready());
    assert_eq!(endpoint.health.describe().reason.as_deref(), Some("not checked yet"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_good_metrics_page_is_enough_to_begin_with() {
    let fed = Fed::start(|options| {
        checks(options);
        options.health.as_mut().unwrap().timeout = Duration::from_secs(5);
    });
    let engine = Engine::start().await;
    engine.reply("/health", Reply::Silence).reply("/metrics", Reply::ok("vllm:num_requests_waiting 1\n"));
    let endpoint = fed.add(engine.meta("a"));
    until("ready", || endpoint.ready()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn being_described_anew_does_not_make_an_endpoint_unready() {
    let fed = only_checks();
    let engine = Engine::start().await;
    engine.reply("/health", Reply::ok(""));
    let endpoint = fed.add(engine.meta("a"));
    until("ready", || endpoint.ready()).await;
    engine.reply("/health", Reply::Silence);
    let mut meta = engine.meta("a");
    meta.labels = [("role", "decode")].into_iter().collect();
    let anew = fed.add(meta);
    assert!(anew.ready() && anew.id == endpoint.id);
    pause(100).await;
    assert!(anew.ready());
}

#[tokio::test(flavor = "multi_thread")]
async fn health_is_checked_over_one_connection() {
    let fed = only_checks();
    let engine = Engine::start().await;
    engine.reply("/health", Reply::ok("fine"));
    fed.add(engine.meta("a"));
    until("asked often", || engine.asked("/health") > 5).await;
    assert_eq!(engine.seen.connections.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_at_arrival_and_followed() {
    let fed = Fed::with(Vec::new(), |o| {
        o.health = None;
        o.models_interval = Some(Duration::from_millis(100));
    });
    let engine = Engine::start().await;
    engine.reply("/v1/models", Reply::ok(r#"{"data":[{"id":"base"},{"id":"lora"}]}"#));
    let endpoint = fed.add(engine.meta("a"));
    until("listed", || endpoint.engine.serves("lora") == Some(true)).await;
    assert_eq!(endpoint.engine.serves("other"), Some(false));
    engine.reply("/v1/models", Reply::ok(r#"{"data":[{"id":"base"}]}"#));
    until("unloaded", || endpoint.engine.serves("lora") == Some(false)).await;
    engine.reply("/v1/models", Reply::Plain(503, Vec::new()));
    pause(300).await;
    assert_eq!(endpoint.engine.serves("base"), Some(true), "an engine that does not answer keeps its list");
    for not_a_list in [Reply::ok("<html>"), Reply::Plain(404, br#"{"data":[]}"#.to_vec())] {
        engine.reply("/v1/models", not_a_list);
        until("unknown", || endpoint.engine.models().is_none()).await;
        engine.reply("/v1/models", Reply::ok(r#"{"data":[]}"#));
        until("empty", || endpoint.engine.serves("base") == Some(false)).await;
    }
}
