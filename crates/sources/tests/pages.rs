//! Pages beside the engine's metrics, fetched from a server that is told what to say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::sync::atomic::Ordering;
use std::time::Duration;

use common::{Engine, Fed, Reply, compiled, pause, until};
use pointsman_sources::ScrapeSource;

const PAGE: &str = "vllm:num_requests_waiting 3\nvllm:num_requests_running 4\nvllm:kv_cache_usage_perc 0.25\n";

/// Sources of a document with these plugins and these sources, each with its extractor.
fn declared(plugins: &[&str], sources: &[(&str, &str)]) -> Vec<ScrapeSource> {
    let plugins: String = plugins.iter().map(|p| format!("- {p}\n")).collect();
    let listed = |(s, e): &(&str, &str)| format!("  - pluginRef: {s}\n    extractors:\n    - pluginRef: {e}\n");
    let sources: String = sources.iter().map(listed).collect();
    compiled(&format!("plugins:\n- type: max-score-picker\n{plugins}dataLayer:\n  sources:\n{sources}"))
}

fn fed(scrape: Vec<ScrapeSource>) -> Fed {
    Fed::with(scrape, |o| o.health = None)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configured_source_of_models_takes_the_place_of_the_built_in_look() {
    let engine = Engine::start().await;
    engine
        .reply("/metrics", Reply::ok(PAGE))
        .reply("/models", Reply::ok(r#"{"object":"list","data":[{"id":"base"},{"id":"adapter"}]}"#));
    let fed = fed(declared(
        &["{type: models-data-source, parameters: {path: models, interval: 100ms}}", "type: models-data-extractor"],
        &[("models-data-source", "models-data-extractor")],
    ));
    let endpoint = fed.add(engine.meta("a"));
    until("listed", || endpoint.engine.serves("adapter") == Some(true)).await;
    engine.reply("/models", Reply::ok(r#"{"data":[{"id":"base"}]}"#));
    until("unloaded", || endpoint.engine.serves("adapter") == Some(false)).await;
    engine.reply("/models", Reply::ok("gone mad"));
    until("unknown", || endpoint.engine.models().is_none()).await;
    assert_eq!(fed.count.types(), ["models-data-source models-data-extractor"]);
    assert_eq!(engine.asked("/v1/models"), 0);
    assert_eq!(endpoint.engine.last_error(), None, "its metrics are well");
}

#[tokio::test(flavor = "multi_thread")]
async fn gpu_utilization_is_an_attribute_and_its_absence_no_fault_of_the_engine() {
    let (engine, exporter) = (Engine::start().await, Engine::start().await);
    engine.reply("/metrics", Reply::ok(PAGE));
    exporter.reply("/metrics", Reply::ok("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",pod=\"a\"} 62\n"));
    let source = format!("{{type: dcgm-data-source, parameters: {{port: {}}}}}", exporter.address.port());
    let fed = fed(declared(&[&source, "type: dcgm-extractor"], &[("dcgm-data-source", "dcgm-extractor")]));
    let endpoint = fed.add(engine.meta("a"));
    let utilization = || endpoint.engine.attribute("GPUUtilization/dcgm-extractor").map(|(value, _)| value);
    until("read", || utilization() == Some(0.62)).await;
    drop(exporter);
    until("failing", || fed.count.types() == ["dcgm-data-source"]).await;
    pause(200).await;
    assert_eq!(
        (utilization(), endpoint.engine.last_error()),
        (Some(0.62), None),
        "what was known ages, it does not go"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_whose_address_is_not_known_has_no_page_and_one_that_is_known_is_asked_there() {
    let exporter = Engine::start().await;
    exporter.reply("/metrics", Reply::ok("DCGM_FI_DEV_GPU_UTIL 50\n"));
    let port = exporter.address.port();
    let source = format!("{{type: dcgm-data-source, parameters: {{port: {port}, useNodeAddress: true}}}}");
    let fed = fed(declared(&[&source, "type: dcgm-extractor"], &[("dcgm-data-source", "dcgm-extractor")]));
    let engine = Engine::start().await;
    let mut meta = engine.meta("a");
    fed.add(meta.clone());
    pause(300).await;
    assert_eq!(exporter.asked("/metrics"), 0);
    meta.node_address = Some("127.0.0.1".into());
    let endpoint = fed.add(meta);
    until("read", || endpoint.engine.attribute("GPUUtilization/dcgm-extractor").is_some()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_cluster_is_read_by_what_its_picker_exports() {
    let peer = Engine::start().await;
    let page = "llm_d_epp_average_kv_cache_utilization{name=\"p\"} 0.5\nllm_d_epp_average_queue_size{name=\"p\"} 2.5\n";
    peer.reply("/pool", Reply::ok(page));
    let mut scrape = declared(
        &[
            "{type: multicluster-metrics-data-source, parameters: {scheme: http, path: /pool}}",
            "type: multicluster-metrics-extractor",
        ],
        &[("multicluster-metrics-data-source", "multicluster-metrics-extractor")],
    );
    scrape.retain(|s| s.type_name == "multicluster-metrics-data-source");
    let fed = Fed::with(scrape, |o| (o.health, o.models_interval) = (None, None));
    let endpoint = fed.add(peer.meta("cluster-b"));
    let value = |key: &str| endpoint.engine.attribute(key).map(|(value, _)| value);
    until("read", || value("llm-d.ai/multicluster-kv-cache-utilization/") == Some(0.5)).await;
    assert_eq!(value("llm-d.ai/multicluster-queue-size/"), Some(2.5));
    peer.reply("/pool", Reply::ok("llm_d_epp_average_queue_size 1\n"));
    let said = Some("the metrics page has no KV cache usage");
    until("said", || endpoint.engine.last_error().as_deref() == said).await;
    assert_eq!(fed.count.types(), ["multicluster-metrics-data-source multicluster-metrics-extractor"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_different_kinds_keep_their_own_pace() {
    let engine = Engine::start().await;
    engine
        .reply("/metrics", Reply::ok(PAGE))
        .reply("/slow", Reply::Silence)
        .reply("/quick", Reply::ok(r#"{"data":[]}"#));
    let scrape = declared(
        &[
            "{name: quick, type: models-data-source, parameters: {path: /quick, interval: 50ms}}",
            "{name: slow, type: models-data-source, parameters: {path: /slow}}",
            "type: models-data-extractor",
        ],
        &[("quick", "models-data-extractor"), ("slow", "models-data-extractor")],
    );
    let fed = Fed::with(scrape, |o| {
        o.health = None;
        o.base_interval = Duration::from_millis(400);
    });
    fed.add(engine.meta("a"));
    until("begun", || engine.asked("/metrics") > 0 && engine.asked("/quick") > 0).await;
    let before = (engine.asked("/metrics"), engine.asked("/quick"));
    pause(2_000).await;
    let (metrics, quick) = (engine.asked("/metrics") - before.0, engine.asked("/quick") - before.1);
    assert!((4..=6).contains(&metrics), "{metrics} metrics pages in two seconds at 400 ms");
    assert!((25..=41).contains(&quick), "{quick} lists in two seconds at 50 ms");
    assert!(fed.count.poll.load(Ordering::SeqCst) > 0, "the silent one is given up each time");
}
