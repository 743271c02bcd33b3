//! Engines for whoever has none: six simulated ones inside this process, speaking real HTTP on loopback ports.

use pointsman_core::EndpointName;
use pointsman_engine::{EngineHandle, EngineOptions, FakeLoras, FakeMetrics, spawn};
use pointsman_fleet::EndpointMeta;
use tokio::net::TcpListener;

use super::flags::DemoName;
use crate::failure::Failure;

/// Model that the engines serve.
pub(super) const MODEL: &str = "demo";
/// The engine that is never ready, so that there is something to see.
pub(super) const UNREADY: &str = "D";

const NAMES: [&str; 6] = ["A", "B", "C", "D", "E", "F"];

/// The configuration of the worked example: weights as it gives them.
pub(super) const DECK_CONFIG: &str = include_str!("deck.yaml");
const DECK_ADAPTERS: [&str; 4] = ["chat-lora", "code-lora", "a1", "a2"];

/// What an engine shows in the worked example: KV-cache usage, requests waiting, adapters loaded. One request runs on each.
const DECK: [(f64, f64, &str); 6] = [
    (0.45, 2.0, "chat-lora"),
    (0.82, 6.0, "code-lora"),
    (0.31, 1.0, "chat-lora,code-lora"),
    (0.67, 0.0, ""),
    (0.55, 3.0, "a1,a2"),
    (0.20, 0.0, ""),
];

/// Running engines, and how they are found. They end with the process.
pub(super) struct Demo {
    pub(super) endpoints: Vec<EndpointMeta>,
    _engines: Vec<EngineHandle>,
}

/// Starts the six.
pub(super) async fn start(name: Option<DemoName>) -> Result<Demo, Failure> {
    let (mut endpoints, mut engines) = (Vec::new(), Vec::new());
    for (at, engine) in NAMES.into_iter().enumerate() {
        let failed =
            |why: &dyn std::fmt::Display| Failure::new(format!("cannot start the simulated engine {engine}")).why(why);
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(|e| failed(&e))?;
        let handle = spawn(options(engine, name), listener).map_err(|e| failed(&e))?;
        if engine == UNREADY {
            handle.set_healthy(false);
        }
        if name == Some(DemoName::Deck) {
            handle.freeze(Some(frozen(DECK[at])));
        }
        let address = handle.addr();
        endpoints.push(EndpointMeta::new(
            EndpointName::new("default", engine),
            address.ip().to_string(),
            address.port(),
        ));
        engines.push(handle);
    }
    Ok(Demo { endpoints, _engines: engines })
}

fn options(engine: &str, name: Option<DemoName>) -> EngineOptions {
    let mut options = EngineOptions { model: MODEL.into(), pod_name: Some(engine.into()), ..EngineOptions::default() };
    if name == Some(DemoName::Deck) {
        // Every engine can serve every adapter; which ones it has loaded is what the metrics tell.
        options.lora_modules = DECK_ADAPTERS.iter().map(|adapter| format!("{adapter}=/adapters/{adapter}")).collect();
        options.max_loras = 2;
    }
    options
}

fn frozen((kv_cache_usage, waiting, adapters): (f64, f64, &str)) -> FakeMetrics {
    let loras = vec![FakeLoras { running: adapters.into(), waiting: String::new(), timestamp: None }];
    FakeMetrics { running: 1.0, waiting, kv_cache_usage, loras }
}
