//! Time from the last byte of a request to its decision, record included: default profile of `serve`, a prompt of 4,000 tokens that was hashed while it
//! arrived. Three cases a fleet: nobody holds the prompt; every endpoint holds its first half; one endpoint holds all of it.

use bytes::Bytes;
use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman_config::Faults;
use pointsman_core::{EndpointName, Nanos};
use pointsman_fleet::{EndpointMeta, Scraped};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, Reading, RequestHead};
use pointsman_scheduling::Termination;
use std::sync::Arc;

fn pool(endpoints: usize) -> Arc<Pool> {
    let states = Arc::<LearnedStates>::default();
    let options =
        CompileOptions { allow_experimental: false, default: DefaultProfile::Serve, states: Arc::clone(&states) };
    let compiled = compile(b"", &options, &mut Faults::new()).expect("the built-in profile compiles");
    let pool =
        Pool::new(PoolOptions { states, stale_after: std::time::Duration::ZERO, ..PoolOptions::default() }, compiled);
    for i in 0..endpoints {
        let name = EndpointName::new("default", format!("engine-{i}"));
        pool.fleet.upsert(EndpointMeta::new(name, format!("10.0.{}.{}", i / 250, i % 250 + 1), 8000));
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

fn body(seed: usize, shared: usize) -> Bytes {
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

fn reading(pool: &Arc<Pool>, body: Bytes, only: Option<&str>) -> Reading {
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

fn decide(c: &mut Criterion) {
    let mut group = c.benchmark_group("decide");
    for endpoints in [10, 100, 1000] {
        for (case, shared) in [("cold", 0), ("half-shared", 8_000), ("one-holds-all", 16_000)] {
            let pool = pool(endpoints);
            let addresses: Vec<String> =
                pool.fleet.snapshot().endpoints.iter().map(|e| e.host_port().to_owned()).collect();
            match case {
                "half-shared" => {
                    for address in &addresses {
                        let routed = reading(&pool, body(7, shared), Some(address)).decide().expect("routed");
                        routed.finish(Termination::Natural, None);
                    }
                }
                "one-holds-all" => {
                    let routed =
                        reading(&pool, body(0, shared), Some(&addresses[endpoints / 2])).decide().expect("routed");
                    routed.finish(Termination::Natural, None);
                }
                _ => {}
            }
            let mut seed = 1;
            print_steps(&pool, shared, endpoints, case);
            group.bench_function(BenchmarkId::new(case, endpoints), |b| {
                b.iter_batched(
                    || {
                        seed += 1;
                        reading(&pool, body(seed, shared), None)
                    },
                    |reading| reading.decide().expect("routed"),
                    BatchSize::SmallInput,
                );
            });
        }
    }
    group.finish();
}

/// Where the time goes: the mean of each step over a thousand decisions, in microseconds.
fn print_steps(pool: &Arc<Pool>, shared: usize, endpoints: usize, case: &str) {
    let mut sums = [0.0; 6];
    for seed in 0..1000 {
        let routed = reading(pool, body(seed + 1_000_000, shared), None).decide().expect("routed");
        let s = routed.decision().steps;
        for (sum, v) in sums.iter_mut().zip([s.read, s.resolve, s.gather, s.schedule, s.send, s.total()]) {
            *sum += v as f64 / 1e6;
        }
    }
    let names = ["read", "resolve", "gather", "schedule", "send", "total"];
    let text: Vec<String> = names.iter().zip(sums).map(|(n, s)| format!("{n} {s:.2}")).collect();
    println!("decide/{case}/{endpoints} steps in us: {}", text.join(", "));
}

criterion_group!(benches, decide);
criterion_main!(benches);
