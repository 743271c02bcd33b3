//! A decision allocates per request, not per candidate.

use bytes::Bytes;
use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::{EndpointMeta, Scraped};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, RequestHead};
use pointsman_trace::{Sampler, Sink, Span, Tracer};
use std::sync::Arc;
use std::time::Duration;

/// Where spans are lost.
#[derive(Debug)]
struct Nowhere;

impl Sink for Nowhere {
    fn take(&self, _spans: Vec<Span>) {}
}

fn allocations(endpoints: usize, tracer: Option<Tracer>) -> u64 {
    let states = Arc::<LearnedStates>::default();
    let options =
        CompileOptions { allow_experimental: false, default: DefaultProfile::Serve, states: Arc::clone(&states) };
    let compiled = compile(b"", &options, &mut Faults::new()).expect("the built-in profile compiles");
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let tracer = tracer.map(Arc::new);
    let options = PoolOptions { clock, states, stale_after: Duration::ZERO, tracer, ..PoolOptions::default() };
    let pool = Pool::new(options, compiled);
    for i in 0..endpoints {
        let name = EndpointName::new("default", format!("e{i}"));
        pool.fleet.upsert(EndpointMeta::new(name, format!("10.0.{}.{}", i / 250, i % 250 + 1), 8000));
    }
    let scraped = Scraped { waiting: Some(1.0), running: Some(1.0), kv_usage: Some(0.5), ..Scraped::default() };
    for e in &pool.fleet.snapshot().endpoints {
        e.engine.apply(pool.clock.now(), &scraped);
    }
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";
    let headers: Arc<[(Box<str>, Box<str>)]> = Arc::new([("traceparent".into(), parent.into())]);
    let head = || RequestHead {
        transport: "gateway",
        method: "POST".into(),
        path: "/v1/completions".into(),
        headers: Arc::clone(&headers),
        received: Nanos(1_000_000_000),
        subset: None,
    };
    let reading = || {
        let mut reading = pool.begin(head());
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
        let mut routed = None;
        // The body is scanned as it arrives, before a decision is asked for: what that costs is counted apart.
        let begun = allocation_counter::measure(|| drop(pool.begin(head()))).count_total;
        let reading = reading();
        let decided = allocation_counter::measure(|| routed = Some(reading.decide().expect("routed"))).count_total;
        let forwarded = allocation_counter::measure(|| {
            let headers = routed.as_ref().and_then(|r| r.trace_headers());
            assert!(headers.is_none_or(|h| h.iter().count() == 1));
        });
        least = least.min(begun + decided + forwarded.count_total);
    }
    least
}

#[test]
fn a_decision_allocates_no_more_for_a_hundred_candidates_than_for_ten() {
    let (few, many) = (allocations(10, None), allocations(100, None));
    // A longer vector may be grown once more; a hundred candidates must not mean ninety allocations more.
    assert!(many <= few + 4, "{few} allocations for 10 candidates, {many} for 100");
}

#[test]
fn a_trace_that_is_not_sampled_or_not_exported_allocates_nothing() {
    let untraced = allocations(10, None);
    let unsampled = allocations(10, Some(Tracer::new(Sampler::default(), Some(Box::new(Nowhere)))));
    let unexported = allocations(10, Some(Tracer::new(Sampler::AlwaysOn, None)));
    assert_eq!((unsampled, unexported), (untraced, untraced));
    assert!(allocations(10, Some(Tracer::new(Sampler::AlwaysOn, Some(Box::new(Nowhere))))) > untraced);
}

#[test]
fn images_that_endpoints_hold_are_counted_without_an_allocation_for_each() {
    let states = Arc::<LearnedStates>::default();
    let options =
        CompileOptions { allow_experimental: false, default: DefaultProfile::Serve, states: Arc::clone(&states) };
    let config = "plugins: [{type: mm-embeddings-cache-producer}, {type: random-picker}]";
    let compiled = compile(config.as_bytes(), &options, &mut Faults::new()).expect("it compiles");
    let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
    let pool =
        Pool::new(PoolOptions { clock, states, stale_after: Duration::ZERO, ..PoolOptions::default() }, compiled);
    pool.fleet.upsert(EndpointMeta::new(EndpointName::new("default", "e"), "10.0.0.1", 8000));
    let decide = |first: usize| {
        let mut reading = pool.begin(RequestHead {
            transport: "gateway",
            method: "POST".into(),
            path: "/v1/chat/completions".into(),
            headers: Arc::new([]),
            received: Nanos(1_000_000_000),
            subset: None,
        });
        let image = |n| format!("{{\"type\":\"image_url\",\"image_url\":{{\"url\":\"https://example.com/{n:06}\"}}}}");
        let images: Vec<String> = (first..first + IMAGES).map(image).collect();
        let content = images.join(",");
        reading.push(Bytes::from(format!(
            "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":[{content}]}}]}}"
        )));
        let mut routed = None;
        let count = allocation_counter::measure(|| routed = Some(reading.decide().expect("routed"))).count_total;
        routed.expect("just set").dispatched();
        count
    };
    // Series are made on first use.
    for _ in 0..3 {
        decide(0);
    }
    let (known, unknown) = (decide(0), decide(1_000));
    let page = pool.metrics.render(&pool.fleet.snapshot(), Nanos(2_000_000_000), false);
    let hits = page.lines().find(|l| l.starts_with("llm_d_epp_encoder_cache_hits_total{")).expect("a series");
    assert!(hits.ends_with(&format!(" {}", 3 * IMAGES)), "{hits}");
    assert!(known <= unknown + 10, "{known} allocations for {IMAGES} images that are held, {unknown} where none is");
}

/// Images in a request.
const IMAGES: usize = 200;
