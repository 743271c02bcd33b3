//! Recordings of the Go picker, and pools set up as they say.
#![allow(dead_code, reason = "each test uses its part")]

pub(crate) mod bench;

use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::EndpointMeta;
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, RequestHead};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures/golden")
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// A pool with a configuration and endpoints as recorded, on a clock that moves only when told to. `None`: the configuration needs plugins that are not
/// there yet.
pub(crate) fn pool(folder: &str, setup: &Value) -> Option<Arc<Pool>> {
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    pool_with(folder, setup, PoolOptions { clock, ..PoolOptions::default() })
}

/// The same with other options.
pub(crate) fn pool_with(folder: &str, setup: &Value, options: PoolOptions) -> Option<Arc<Pool>> {
    let config = golden().join(folder).join(setup["config"].as_str().expect("a configuration"));
    let text = std::fs::read(&config).expect("the configuration is there");
    let states = Arc::<LearnedStates>::default();
    let how = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::clone(&states) };
    let mut faults = Faults::new();
    let Some(compiled) = compile(&text, &how, &mut faults) else {
        let later = |f: &&pointsman_config::Fault| f.message.contains("not yet available");
        assert!(
            faults.iter().any(|f| later(&f)),
            "{folder}: {}",
            faults.iter().map(ToString::to_string).collect::<String>()
        );
        return None;
    };
    let pool = Pool::new(PoolOptions { states, ..options }, compiled);
    for e in setup["endpoints"].as_array().expect("endpoints") {
        let text = |key: &str| e[key].as_str().unwrap_or_default().to_owned();
        let name = EndpointName::new(text("namespace"), text("name"));
        let mut meta = EndpointMeta::new(name, text("address"), text("port").parse().expect("a port"));
        let labels = e["labels"].as_object().into_iter().flatten();
        meta.labels = labels.map(|(k, v)| (k.as_str(), v.as_str().expect("text"))).collect();
        pool.fleet.upsert(meta);
    }
    engines(&pool, &setup["engines"]);
    Some(pool)
}

/// Lets every engine export a page, and reads it as production does.
pub(crate) fn engines(pool: &Pool, engines: &Value) {
    for (name, state) in engines.as_object().into_iter().flatten() {
        let active = pool.active();
        let extractor = &active.compiled.sources[0].extractors[0];
        let snapshot = pool.fleet.snapshot();
        let Some(endpoint) = snapshot.endpoints.iter().find(|e| *e.name().name == **name) else { continue };
        let read = extractor.extract(&endpoint.meta, page(state).as_bytes());
        endpoint.engine.apply(pool.clock.now(), &read.scraped);
    }
    pool.housekeeping();
}

/// The head of a recorded request, of its messages.
pub(crate) fn head_of(pool: &Pool, sent: &[&Value]) -> RequestHead {
    let message = sent.iter().find(|m| m["type"] == "request_headers").expect("headers");
    let pair = |h: &Value| (h[0].as_str().unwrap_or_default().into(), h[1].as_str().unwrap_or_default().into());
    let headers: Vec<(Box<str>, Box<str>)> = message["headers"].as_array().into_iter().flatten().map(pair).collect();
    let pseudo =
        |name: &str| headers.iter().find(|(n, _)| &**n == name).map(|(_, v)| v.to_string()).unwrap_or_default();
    let hint = |m: &&Value| {
        let list = &m["metadata_context"]["envoy.lb.subset_hint"]["x-gateway-destination-endpoint-subset"];
        list.as_array().map(|l| l.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect::<Vec<_>>())
    };
    RequestHead {
        transport: "extproc",
        method: pseudo(":method").into(),
        path: pseudo(":path").into(),
        headers: headers.iter().filter(|(n, _)| !n.starts_with(':')).cloned().collect(),
        received: pool.clock.now(),
        subset: sent.iter().rfind(|m| m["type"] == "request_body").and_then(hint),
    }
}

pub(crate) fn text_of(body: &Value) -> String {
    match body {
        Value::String(s) => s.clone(),
        Value::Object(parts) => {
            let text = |k: &str| parts.get(k).and_then(Value::as_str).unwrap_or_default();
            let times = parts.get("times").and_then(Value::as_u64).unwrap_or(1) as usize;
            format!("{}{}{}", text("before"), text("repeat").repeat(times), text("after"))
        }
        _ => String::new(),
    }
}

pub(crate) fn page(state: &Value) -> String {
    let mut page = String::new();
    for (key, family) in [
        ("running", "vllm:num_requests_running"),
        ("waiting", "vllm:num_requests_waiting"),
        ("kv", "vllm:kv_cache_usage_perc"),
    ] {
        if let Some(value) = state[key].as_f64() {
            let _ = writeln!(page, "# TYPE {family} gauge\n{family}{{model_name=\"base-model\"}} {value}");
        }
    }
    for (family, value) in state["custom"].as_object().into_iter().flatten() {
        let _ = writeln!(page, "# TYPE {family} gauge\n{family} {value}");
    }
    if let Some(lora) = state.get("lora") {
        let list = |key: &str| {
            let names = lora[key].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.collect::<Vec<_>>().join(",")
        };
        let _ = writeln!(
            page,
            "vllm:lora_requests_info{{max_lora=\"{}\",running_lora_adapters=\"{}\",waiting_lora_adapters=\"{}\"}} 100",
            lora["max"],
            list("running"),
            list("waiting")
        );
    }
    if let Some(cache) = state.get("cache") {
        let (size, blocks) = (&cache["block_size"], &cache["num_gpu_blocks"]);
        let _ = writeln!(page, "vllm:cache_config_info{{block_size=\"{size}\",num_gpu_blocks=\"{blocks}\"}} 1");
    }
    page
}
