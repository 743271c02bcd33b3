//! Prompts computed here and decoded there (simulator 2.7), as each of the two engines sees it.

use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_sim::{Engine, EngineConfig, Event, Leg, Profile, Request, Timing, What};

const SECOND: u64 = 1_000_000_000;

fn engine(blocks: u32) -> Engine {
    let config = EngineConfig { blocks, ..EngineConfig::default() };
    Engine::new(config, Timing::Step(Profile::named("8b-h100").expect("known").costs()))
}

fn request(id: u64, prompt: u64, leg: Leg) -> Request {
    let blocks = (0..prompt / 16).map(|i| (id << 32) | i).collect();
    Request { id, blocks, prompt_tokens: prompt, output_tokens: 20, leg, ..Request::default() }
}

fn until(engine: &mut Engine, end: Nanos) -> Vec<Event> {
    let mut events = Vec::new();
    while let Some(at) = engine.next_event().filter(|at| *at <= end) {
        engine.advance(at, &mut events);
    }
    engine.advance(end, &mut events);
    events
}

fn kinds(events: &[Event], id: u64) -> Vec<What> {
    events.iter().filter(|e| e.id == id).map(|e| e.what).collect()
}

#[test]
fn a_prefill_leg_generates_one_token_and_keeps_its_blocks_until_they_are_read() {
    let mut engine = engine(100);
    engine.submit(Nanos(0), request(1, 320, Leg::Prefill)).expect("room");
    let events = until(&mut engine, Nanos(SECOND));
    let first = What::Tokens { count: 1, first: true };
    assert_eq!(kinds(&events, 1), [What::Admitted { cached_tokens: 0 }, first, What::Finished]);
    assert_eq!((engine.inside(), engine.held_blocks(), engine.pool().free()), (0, 20, 80));
    assert!(engine.release(1) && !engine.release(1));
    assert_eq!((engine.kv_usage(), engine.pool().cached()), (0.0, 20));
}

#[test]
fn blocks_that_nobody_reads_are_freed_by_the_time_out_and_let_the_next_one_in() {
    let mut engine = engine(30);
    engine.submit(Nanos(0), request(1, 320, Leg::Prefill)).expect("room");
    engine.submit(Nanos(0), request(2, 320, Leg::Whole)).expect("it waits");
    until(&mut engine, Nanos(479 * SECOND));
    assert_eq!((engine.waiting(), engine.running()), (1, 0));
    let expiry = engine.next_event().expect("the time-out");
    assert_eq!(expiry.0 / SECOND, 480);
    let events = until(&mut engine, Nanos(500 * SECOND));
    assert_eq!(kinds(&events, 2).last(), Some(&What::Finished));
    assert_eq!(kinds(&events, 2)[0], What::Admitted { cached_tokens: 0 });
}

#[test]
fn a_decode_leg_pins_blocks_while_its_kv_comes_and_others_pass_it() {
    let mut engine = engine(100);
    engine.submit(Nanos(0), request(1, 320, Leg::Decode)).expect("room");
    engine.submit(Nanos(0), request(2, 64, Leg::Whole)).expect("room");
    let events = until(&mut engine, Nanos(SECOND));
    assert_eq!(kinds(&events, 1), [What::Fetching { tokens: 320 }]);
    assert_eq!(kinds(&events, 2).last(), Some(&What::Finished));
    assert_eq!((engine.waiting(), engine.pool().free(), engine.next_event()), (1, 80, None));
    assert!(engine.receive(1) && !engine.receive(1));
    let events = until(&mut engine, Nanos(2 * SECOND));
    let kinds = kinds(&events, 1);
    assert_eq!(kinds[0], What::Admitted { cached_tokens: 0 });
    assert_eq!(kinds.last(), Some(&What::Finished));
    let first = events.iter().find(|e| matches!(e.what, What::Tokens { first: true, .. })).expect("it decodes");
    assert!(first.at.since(Nanos(SECOND)) < Duration::from_millis(7), "one decode step, no prefill");
    // Its prompt stays behind like any other.
    engine.submit(Nanos(3 * SECOND), Request { id: 3, ..request(1, 352, Leg::Decode) }).expect("room");
    let events = until(&mut engine, Nanos(4 * SECOND));
    assert_eq!(events.last().map(|e| e.what), Some(What::Fetching { tokens: 32 }));
}

#[test]
fn a_decode_leg_that_is_cancelled_while_its_kv_comes_gives_its_blocks_back() {
    let mut engine = engine(30);
    engine.submit(Nanos(0), request(1, 320, Leg::Decode)).expect("room");
    engine.submit(Nanos(0), request(2, 320, Leg::Whole)).expect("it waits");
    until(&mut engine, Nanos(SECOND));
    assert_eq!((engine.waiting(), engine.running(), engine.next_event()), (2, 0, None));
    assert!(engine.cancel(1));
    let events = until(&mut engine, Nanos(3 * SECOND));
    assert_eq!(kinds(&events, 2).last(), Some(&What::Finished));
    assert_eq!(engine.kv_usage(), 0.0);
}
