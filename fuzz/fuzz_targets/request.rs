//! Whole requests through the router: any path, any body in any pieces, plain or said to be gzip, and a response to it.
#![no_main]

use bytes::Bytes;
use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::EndpointMeta;
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, RequestHead};
use pointsman_scheduling::Termination;
use std::sync::{Arc, OnceLock};

/// Every parser, the fallback last.
const CONFIG: &[u8] = b"
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
requestHandler:
  parsers:
  - pluginRef: openai-parser
  - pluginRef: anthropic-parser
  - pluginRef: vllmhttp-parser
  - pluginRef: sglanghttp-parser
  - pluginRef: vllmgrpc-parser
  - pluginRef: vertexai-parser
  - pluginRef: passthrough-parser
";

const PATHS: [&str; 16] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/messages",
    "/v1/responses",
    "/v1/embeddings",
    "/v1/conversations",
    "/v1/images/generations",
    "/inference/v1/generate",
    "/v1/messages/count_tokens",
    "/anything",
    "/generate",
    "/x/generate",
    "/vllm.grpc.engine.VllmEngine/Generate",
    "/vllm.grpc.engine.VllmEngine/Embed",
    "/google.cloud.aiplatform.v1.PredictionService/ChatCompletions",
    "/google.cloud.aiplatform.v1.PredictionService/RawPredict",
];

fn pool() -> &'static Arc<Pool> {
    static POOL: OnceLock<Arc<Pool>> = OnceLock::new();
    POOL.get_or_init(|| {
        let states = Arc::<LearnedStates>::default();
        let options =
            CompileOptions { allow_experimental: false, default: DefaultProfile::Serve, states: Arc::clone(&states) };
        let compiled = compile(CONFIG, &options, &mut Faults::new()).expect("the configuration compiles");
        let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
        let pool = Pool::new(PoolOptions { clock, states, ..PoolOptions::default() }, compiled);
        for name in ["a", "b", "c"] {
            pool.fleet.upsert(EndpointMeta::new(EndpointName::new("default", name), name, 8000));
        }
        pool
    })
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let [path, flags, size, split, rest @ ..] = data else { return };
    let (body, response) = rest.split_at(rest.len() * usize::from(*split) / 256);
    let mut headers: Vec<(Box<str>, Box<str>)> = Vec::new();
    if flags & 1 != 0 {
        headers.push(("content-encoding".into(), "gzip".into()));
    }
    if flags & 2 != 0 {
        headers.push(("x-llm-d-model-name-rewrite".into(), "other".into()));
    }
    let mut reading = pool().begin(RequestHead {
        transport: "gateway",
        method: if flags & 4 != 0 { "GET" } else { "POST" }.into(),
        path: PATHS[usize::from(*path) % PATHS.len()].into(),
        headers: headers.into(),
        received: Nanos(1_000_000_000),
        subset: None,
    });
    for chunk in body.chunks(usize::from(*size).max(1)) {
        reading.push(Bytes::copy_from_slice(chunk));
    }
    if let Ok(mut routed) = reading.decide() {
        if flags & 8 != 0 {
            routed.retry("refused");
        }
        let kind = if flags & 16 != 0 { "text/event-stream" } else { "application/json" };
        routed.response_head(200, Some(kind), (flags & 32 != 0).then_some("gzip"));
        for chunk in response.chunks(usize::from(*size).max(1)) {
            routed.response_chunk(chunk);
            routed.rewrite_response(Bytes::copy_from_slice(chunk), false, &mut |piece| assert!(!piece.is_empty()));
        }
        routed.rewrite_response(Bytes::new(), true, &mut |piece| assert!(!piece.is_empty()));
        routed.finish(Termination::Natural, None);
    }
    let left: u64 = pool().fleet.snapshot().endpoints.iter().map(|e| e.load.requests() + e.load.tokens()).sum();
    assert_eq!(left, 0, "every request ends");
});
