//! A decision allocates per request, not per candidate.

use bytes::Bytes;
use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::{EndpointMeta, Scraped};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, RequestHead};
use std::sync::Arc;
use std::time::Duration;

fn allocations(endpoints: usize) -> u64 {
    let states = Arc::<LearnedStates>::default();
    let options =
        CompileOptions { allow_experimental: false, default: DefaultProfile::Serve, states: Arc::clone(&states) };
    let compiled = compile(b"", &options, &mut Faults::new()).expect("the built-in profile compiles");
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let pool =
        Pool::new(PoolOptions { clock, states, stale_after: Duration::ZERO, ..PoolOptions::default() }, compiled);
    for i in 0..endpoints {
        let name = EndpointName::new("default", format!("e{i}"));
        pool.fleet.upsert(EndpointMeta::new(name, format!("10.0.{}.{}", i / 250, i % 250 + 1), 8000));
    }
    let scraped = Scraped { waiting: Some(1.0), running: Some(1.0), kv_usage: Some(0.5), ..Scraped::default() };
    for e in &pool.fleet.snapshot().endpoints {
        e.engine.apply(pool.clock.now(), &scraped);
    }
    let reading = || {
        let mut reading = pool.begin(RequestHead {
            transport: "gateway",
            method: "POST".into(),
            path: "/v1/completions".into(),
            headers: Arc::new([]),
            received: Nanos(1_000_000_000),
            subset: None,
        });
        let prompt = "a prompt of some blocks ".repeat(200);
        reading.push(Bytes::from(format!("{{\"model\":\"m\",\"prompt\":\"{prompt}\"}}")));
        reading
    };
    // Series and tables are made on first use: every endpoint has had its turn before it is counted.
    for _ in 0..20 * endpoints {
        drop(reading().decide().expect("routed"));
    }
    let mut least = u64::MAX;
    for _ in 0..20 {
        let reading = reading();
        let mut routed = None;
        let info = allocation_counter::measure(|| routed = Some(reading.decide().expect("routed")));
        least = least.min(info.count_total);
    }
    least
}

#[test]
fn a_decision_allocates_no_more_for_a_hundred_candidates_than_for_ten() {
    let (few, many) = (allocations(10), allocations(100));
    // A longer vector may be grown once more; a hundred candidates must not mean ninety allocations more.
    assert!(many <= few + 4, "{few} allocations for 10 candidates, {many} for 100");
}
