//! One process of a recording: a pool with the recorded endpoints and engine pages, and the exchanges that are open in it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_extproc::{Compat, Exchange, ExtProcOptions, Shared};
use pointsman_fleet::EndpointMeta;
use pointsman_grpc::{Call, Out};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions};
use serde_json::{Value, json};

use crate::messages;

pub(crate) fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures/golden")
}

/// One process.
pub(crate) struct Process {
    pub(crate) pool: Arc<Pool>,
    shared: Arc<Shared>,
    open: BTreeMap<String, (Exchange, Out)>,
}

/// What an exchange came to.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// In order, with the number of messages that had been sent by then.
    pub(crate) received: Vec<(usize, Value)>,
    /// gRPC code and message, when the server ended the stream.
    pub(crate) end: Option<(u8, String)>,
}

impl Process {
    /// `None`: the configuration needs plugins that are not there yet.
    pub(crate) fn start(folder: &str, setup: &Value, compat: &[Compat]) -> Option<Self> {
        let config = golden().join(folder).join(setup["config"].as_str().expect("a configuration"));
        let text = std::fs::read(&config).expect("the configuration is there");
        let states = Arc::<LearnedStates>::default();
        let options =
            CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::clone(&states) };
        let mut faults = Faults::new();
        let Some(compiled) = compile(&text, &options, &mut faults) else {
            let later = |f: &&pointsman_config::Fault| f.message.contains("not yet available");
            let all = faults.iter().map(ToString::to_string).collect::<String>();
            assert!(faults.iter().any(|f| later(&f)), "{folder}: {all}");
            return None;
        };
        let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
        let pool = Pool::new(PoolOptions { clock, states, ..PoolOptions::default() }, compiled);
        for e in setup["endpoints"].as_array().expect("endpoints") {
            let text = |key: &str| e[key].as_str().unwrap_or_default().to_owned();
            let name = EndpointName::new(text("namespace"), text("name"));
            let mut meta = EndpointMeta::new(name, text("address"), text("port").parse().expect("a port"));
            let labels = e["labels"].as_object().into_iter().flatten();
            meta.labels = labels.map(|(k, v)| (k.as_str(), v.as_str().expect("text"))).collect();
            pool.fleet.upsert(meta);
        }
        let flag = |name: &str| setup["flags"].as_array().into_iter().flatten().any(|f| f == name);
        let options = ExtProcOptions {
            emit_endpoint_scores: flag("--emit-endpoint-scores"),
            subset_filter: !flag("--disable-endpoint-subset-filter"),
            compat: compat.iter().copied().collect(),
            ..ExtProcOptions::default()
        };
        Some(Self::over(pool, setup, options))
    }

    /// The default configuration with these options.
    pub(crate) fn with(setup: &Value, options: ExtProcOptions) -> Self {
        let process = Self::start("wire", setup, &[]).expect("the default configuration");
        Self::over(Arc::clone(&process.pool), setup, options)
    }

    fn over(pool: Arc<Pool>, setup: &Value, options: ExtProcOptions) -> Self {
        let shared = Shared::new(Arc::clone(&pool), options);
        let process = Self { pool, shared, open: BTreeMap::new() };
        process.engines(&setup["engines"]);
        process
    }

    /// Lets every engine export a page, and reads it as production does.
    pub(crate) fn engines(&self, engines: &Value) {
        for (name, state) in engines.as_object().into_iter().flatten() {
            let active = self.pool.active();
            let extractor = &active.compiled.sources[0].extractors[0];
            let snapshot = self.pool.fleet.snapshot();
            let Some(endpoint) = snapshot.endpoints.iter().find(|e| *e.name().name == **name) else { continue };
            let read = extractor.extract(extractor.label(&endpoint.meta.labels), page(state).as_bytes());
            endpoint.engine.apply(self.pool.clock.now(), &read.scraped);
        }
        self.pool.housekeeping();
    }

    /// An exchange of nobody yet.
    pub(crate) fn new_exchange(&self) -> Exchange {
        Exchange::new(Arc::clone(&self.shared))
    }

    /// Request bytes that are held.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.shared.held_bytes()
    }

    /// Runs an exchange; it stays open under its request id unless the client or the server ends it.
    pub(crate) fn exchange(&mut self, id: &str, steps: &[Value]) -> Answered {
        let mut exchange = self.new_exchange();
        let (mut out, mut answered) = (Out::default(), Answered::default());
        let mut sent = 0;
        for step in steps {
            if let Some(message) = step.get("send") {
                sent += 1;
                let encoded = messages::encode(message);
                if encoded.len() > ExtProcOptions::default().max_message_bytes {
                    let size = encoded.len();
                    answered.end = Some((8, format!("grpc: received message larger than max ({size} vs. 4194304)")));
                    return answered;
                }
                exchange.message(encoded, &mut out);
            } else if step["client"] == "closes its side" {
                exchange.half_closed(&mut out);
                let received = messages::decode(&out.take());
                answered.received.extend(received.into_iter().map(|m| (sent, m)));
                return answered;
            } else if step["client"] == "cancels the stream" {
                return answered;
            }
            let received = messages::decode(&out.take());
            answered.received.extend(received.into_iter().map(|m| (sent, m)));
            if let Some(status) = out.status() {
                answered.end = Some((status.code as u8, status.message.to_string()));
                return answered;
            }
        }
        self.open.insert(id.to_owned(), (exchange, out));
        answered
    }

    /// Goes on with an open exchange.
    pub(crate) fn send(&mut self, id: &str, message: &Value) {
        let (exchange, out) = self.open.get_mut(id).expect("it is open");
        exchange.message(messages::encode(message), out);
        let _ = out.take();
    }

    /// The response comes and ends, and the client closes its side.
    pub(crate) fn complete(&mut self, id: &str) {
        let json = json!([[":status", "200"], ["content-type", "application/json"]]);
        self.send(id, &json!({"type": "response_headers", "headers": json, "end_of_stream": false}));
        self.send(id, &json!({"type": "response_body", "body": "{}", "end_of_stream": true}));
        let (mut exchange, mut out) = self.open.remove(id).expect("it is open");
        exchange.half_closed(&mut out);
    }

    /// The client leaves.
    pub(crate) fn cancel(&mut self, id: &str) {
        self.open.remove(id);
    }

    /// Completes whatever is open.
    pub(crate) fn complete_all(&mut self) {
        let ids: Vec<String> = self.open.keys().cloned().collect();
        ids.iter().for_each(|id| self.complete(id));
    }

    /// Drops whatever is open.
    pub(crate) fn cancel_all(&mut self) {
        self.open.clear();
    }

    /// The metrics page.
    pub(crate) fn page(&self) -> String {
        self.pool.metrics.render(&self.pool.fleet.snapshot(), self.pool.clock.now(), false)
    }
}

fn page(state: &Value) -> String {
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
