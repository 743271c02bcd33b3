//! Time from the last byte of a request to its decision, record included: default profile of `serve`, a prompt of 4,000 tokens that was hashed while it
//! arrived. Three cases a fleet: nobody holds the prompt; every endpoint holds its first half; one endpoint holds all of it.

#[path = "setup/mod.rs"]
mod setup;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use pointsman_router::Pool;
use pointsman_scheduling::Termination;
use setup::{body, pool, pool_keeping, reading};
use std::sync::Arc;

fn decide(c: &mut Criterion) {
    let mut group = c.benchmark_group("decide");
    for endpoints in [10, 100, 1000] {
        for (case, shared) in
            [("cold", 0), ("half-shared", 8_000), ("one-holds-all", 16_000), ("cold-without-record", 0)]
        {
            let pool = if case.ends_with("without-record") { pool_keeping(endpoints, 0) } else { pool(endpoints) };
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
    #[allow(clippy::print_stdout, reason = "a benchmark talks on stdout")]
    {
        println!("decide/{case}/{endpoints} steps in us: {}", text.join(", "));
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
