//! A pool and requests to measure with.

use bytes::Bytes;
use pointsman_config::Faults;
use pointsman_core::{EndpointName, Nanos};
use pointsman_fleet::{EndpointMeta, Scraped};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, Reading, RequestHead};
use std::sync::Arc;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// A pool of `endpoints` engines under the default profile of `serve`.
pub(crate) fn pool(endpoints: usize) -> Arc<Pool> {
    pool_keeping(endpoints, PoolOptions::default().record_bytes)
}

#[allow(dead_code, reason = "each benchmark uses its part")]
/// The same with so many bytes of records; 0 keeps none, which tells what they cost.
pub(crate) fn pool_keeping(endpoints: usize, record_bytes: usize) -> Arc<Pool> {
    pool_of("", endpoints, record_bytes)
}

/// The same under a document.
pub(crate) fn pool_of(document: &str, endpoints: usize, record_bytes: usize) -> Arc<Pool> {
    let states = Arc::<LearnedStates>::default();
    let options =
        CompileOptions { allow_experimental: true, default: DefaultProfile::Serve, states: Arc::clone(&states) };
    let mut faults = Faults::new();
    let compiled = compile(document.as_bytes(), &options, &mut faults);
    let compiled = compiled.unwrap_or_else(|| panic!("{:?}", faults.sorted()));
    let pool = Pool::new(
        PoolOptions { states, record_bytes, stale_after: std::time::Duration::ZERO, ..PoolOptions::default() },
        compiled,
    );
    for i in 0..endpoints {
        let name = EndpointName::new("default", format!("engine-{i}"));
        let mut meta = EndpointMeta::new(name, format!("10.0.{}.{}", i / 250, i % 250 + 1), 8000);
        meta.labels = [("llm-d.ai/role", "decode"), ("llm-d.ai/context-length-range", "0-131072"), ("tier", "a")]
            .into_iter()
            .collect();
        pool.fleet.upsert(meta);
    }
    for (i, e) in pool.fleet.snapshot().endpoints.iter().enumerate() {
        let scraped = Scraped {
            waiting: Some((i % 7) as f64),
            running: Some((i % 40) as f64),
            kv_usage: Some((i % 100) as f64 / 100.0),
            ..Scraped::default()
        };
        e.engine.apply(pool.clock.now(), &scraped);
    }
    pool.housekeeping();
    pool
}

/// A completions body of 4,000 tokens, the first `shared` bytes of which are the same for every seed.
pub(crate) fn body(seed: usize, shared: usize) -> Bytes {
    // 16,000 bytes of prompt are 4,000 tokens.
    let mut prompt = "You are a helpful assistant of the railway. ".repeat(400);
    prompt.truncate(shared);
    let mut i = seed;
    while prompt.len() < 16_000 {
        i = i.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        prompt.push_str(&format!("{i:016x}"));
    }
    prompt.truncate(16_000);
    Bytes::from(format!("{{\"model\":\"m\",\"prompt\":\"{prompt}\"}}"))
}

/// A request whose body has arrived.
pub(crate) fn reading(pool: &Arc<Pool>, body: Bytes, only: Option<&str>) -> Reading {
    let headers: [(Box<str>, Box<str>); 2] =
        [("content-type".into(), "application/json".into()), ("x-request-id".into(), "bench".into())];
    let mut reading = pool.begin(RequestHead {
        transport: "gateway",
        method: "POST".into(),
        path: "/v1/completions".into(),
        headers: Arc::new(headers),
        received: Nanos(1),
        subset: only.map(|o| vec![o.to_owned()]),
    });
    reading.push(body);
    reading
}
