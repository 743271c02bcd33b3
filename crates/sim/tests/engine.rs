//! The engine as a router sees it: worked examples of the specification and the behaviours they stand for.

use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_sim::{Engine, EngineConfig, Event, Latency, Leg, Profile, Request, SubmitError, Timing, What};
use proptest::prelude::*;

const MS: f64 = 1e6;

fn keys(family: u64, blocks: u64) -> Vec<u64> {
    (0..blocks).map(|i| (family << 32) | i).collect()
}

fn request(id: u64, family: u64, prompt: u64, output: u64, block: u64) -> Request {
    Request {
        id,
        blocks: keys(family, prompt / block),
        prompt_tokens: prompt,
        output_tokens: output,
        lora: None,
        given: 0,
        leg: Leg::Whole,
    }
}

fn engine(change: impl FnOnce(&mut EngineConfig)) -> Engine {
    let mut config = EngineConfig { blocks: 27_280 / 4, block_size: 64, ..EngineConfig::default() };
    change(&mut config);
    Engine::new(config, Timing::Step(Profile::named("8b-h100").expect("known").costs()))
}

fn latency(latency: Latency, change: impl FnOnce(&mut EngineConfig)) -> Engine {
    let mut config = EngineConfig { blocks: 1_000, ..EngineConfig::default() };
    change(&mut config);
    Engine::new(config, Timing::Latency(latency))
}

/// Runs until idle.
fn run(engine: &mut Engine) -> Vec<Event> {
    let mut events = Vec::new();
    let mut steps = 0;
    while let Some(at) = engine.next_event() {
        engine.advance(at, &mut events);
        steps += 1;
        assert!(steps < 1_000_000, "the engine must come to rest");
    }
    events
}

fn ms(events: &[Event], id: u64, want: impl Fn(&What) -> bool) -> f64 {
    events.iter().find(|e| e.id == id && want(&e.what)).map(|e| e.at.0 as f64 / MS).expect("the event happens")
}

fn first(events: &[Event], id: u64) -> f64 {
    ms(events, id, |w| matches!(w, What::Tokens { first: true, .. }))
}

fn finished(events: &[Event], id: u64) -> f64 {
    ms(events, id, |w| matches!(w, What::Finished))
}

fn cached(events: &[Event], id: u64) -> u64 {
    events
        .iter()
        .find_map(|e| match e.what {
            What::Admitted { cached_tokens } if e.id == id => Some(cached_tokens),
            _ => None,
        })
        .expect("it is admitted")
}

fn tokens(events: &[Event], id: u64) -> u64 {
    events.iter().map(|e| if let What::Tokens { count, .. } = e.what { count * u64::from(e.id == id) } else { 0 }).sum()
}

fn close(got: f64, want: f64) {
    assert!((got - want).abs() <= want * 0.01, "{got:.3} ms, expected {want}");
}

#[test]
fn a_thousand_tokens_in_and_ten_out_take_30_65_and_88_70_ms() {
    let mut engine = engine(|_| ());
    engine.submit(Nanos(0), request(1, 1, 1_000, 10, 64)).expect("room");
    let events = run(&mut engine);
    close(first(&events, 1), 30.65);
    close(finished(&events, 1), 88.70);
    assert_eq!(tokens(&events, 1), 10);
}

#[test]
fn a_long_prompt_is_computed_in_chunks_of_the_token_budget() {
    for (budget, want) in [(8_192, 827.7), (2_048, 831.5)] {
        let mut engine = engine(|c| c.max_num_batched_tokens = budget);
        engine.submit(Nanos(0), request(1, 1, 20_000, 1, 64)).expect("room");
        let events = run(&mut engine);
        close(first(&events, 1), want);
        assert_eq!(engine.stats().steps, 20_000_u64.div_ceil(budget));
    }
}

#[test]
fn a_shared_prefix_is_not_computed_again() {
    let mut engine = engine(|_| ());
    engine.submit(Nanos(0), request(1, 1, 6_400, 1, 64)).expect("room");
    let cold = run(&mut engine);
    close(first(&cold, 1), 213.6);
    let start = 1_000 * MS as u64;
    engine.submit(Nanos(start), request(2, 1, 7_040, 1, 64)).expect("room");
    let warm = run(&mut engine);
    assert_eq!(cached(&warm, 2), 6_400);
    close(first(&warm, 2) - start as f64 / MS, 24.5);
}

#[test]
fn a_prefill_shares_its_step_with_the_running_decode() {
    let mut engine = engine(|c| c.coalesce = false);
    engine.submit(Nanos(0), request(1, 1, 1_000, 200, 64)).expect("room");
    let mut events = Vec::new();
    for _ in 0..3 {
        let at = engine.next_event().expect("it runs");
        engine.advance(at, &mut events);
    }
    let arrival = engine.next_event().expect("a step is in progress");
    engine.submit(arrival, request(2, 2, 8_000, 1, 64)).expect("room");
    let events = run(&mut engine);
    close(first(&events, 2) - arrival.0 as f64 / MS, 276.2);
}

#[test]
fn a_wholly_cached_prompt_computes_its_last_block_again() {
    let mut engine = engine(|c| c.block_size = 16);
    for (id, prompt, want) in [(1, 64, 0), (2, 64, 48), (3, 70, 64), (4, 16, 0), (5, 17, 16)] {
        engine
            .submit(engine.next_event().unwrap_or(Nanos(id * 1_000_000_000)), request(id, 1, prompt, 2, 16))
            .expect("room");
        let events = run(&mut engine);
        assert_eq!(cached(&events, id), want, "prompt of {prompt}");
    }
    assert_eq!(engine.stats().prefix_queries, 64 + 64 + 70 + 16 + 17);
    assert_eq!(engine.stats().prefix_hits, 48 + 64 + 16);
}

#[test]
fn a_block_is_visible_only_once_it_is_computed() {
    let mut engine = engine(|_| ());
    engine.submit(Nanos(0), request(1, 1, 6_400, 1, 64)).expect("room");
    engine.submit(Nanos(0), request(2, 1, 6_400, 1, 64)).expect("room");
    let events = run(&mut engine);
    assert_eq!((cached(&events, 1), cached(&events, 2)), (0, 0), "both were admitted before anything was computed");
}

#[test]
fn a_small_cache_evicts_the_least_recently_used_prompt_tail_first() {
    let mut engine = engine(|c| {
        c.blocks = 10;
        c.block_size = 16;
    });
    let mut id = 0;
    let mut ask = |engine: &mut Engine, family, prompt| {
        id += 1;
        engine.submit(Nanos(id * 1_000_000_000), request(id, family, prompt, 1, 16)).expect("room");
        cached(&run(engine), id)
    };
    assert_eq!(ask(&mut engine, 1, 70), 0);
    assert_eq!(ask(&mut engine, 2, 70), 0);
    assert_eq!(ask(&mut engine, 1, 70), 64, "both fit");
    assert_eq!(ask(&mut engine, 3, 40), 0, "needs three blocks: two partial ones and a tail of family 2 go");
    assert_eq!(ask(&mut engine, 1, 70), 64, "the younger one is whole");
    let old = ask(&mut engine, 2, 70);
    assert!(old < 64, "the older one lost its tail, {old} tokens left");
}

#[test]
fn when_blocks_run_out_the_latest_admitted_is_preempted_and_still_finishes() {
    let mut engine = engine(|c| {
        c.blocks = 12;
        c.block_size = 16;
    });
    for id in 1..=2 {
        engine.submit(Nanos(0), request(id, id, 64, 100, 16)).expect("room");
    }
    let events = run(&mut engine);
    assert!(engine.stats().preemptions > 0);
    assert!(events.iter().any(|e| e.id == 2 && e.what == What::Preempted));
    assert!(events.iter().all(|e| e.id != 1 || e.what != What::Preempted), "the first admitted keeps its blocks");
    assert_eq!((tokens(&events, 1), tokens(&events, 2)), (100, 100));
    assert!(finished(&events, 1) < finished(&events, 2));
    assert_eq!(engine.pool().free(), 12);
}

#[test]
fn requests_beyond_the_seats_wait_in_order_and_beyond_the_queue_are_refused() {
    let mut engine = engine(|c| {
        c.max_num_seqs = 1;
        c.max_waiting = 2;
    });
    for id in 1..=3 {
        engine.submit(Nanos(0), request(id, id, 100, 5, 64)).expect("a seat and two places");
    }
    assert_eq!(engine.submit(Nanos(0), request(4, 4, 100, 5, 64)), Err(SubmitError::QueueFull { waiting: 3 }));
    engine.advance(Nanos(0), &mut Vec::new());
    assert_eq!((engine.running(), engine.waiting()), (1, 2));
    let events = run(&mut engine);
    assert!(finished(&events, 1) < first(&events, 2) && finished(&events, 2) < first(&events, 3));
}

#[test]
fn a_request_larger_than_the_cache_is_refused_at_once() {
    let mut engine = engine(|c| c.blocks = 4);
    assert_eq!(engine.submit(Nanos(0), request(1, 1, 250, 7, 64)), Err(SubmitError::TooLarge { needed: 5, total: 4 }));
    engine.submit(Nanos(0), request(1, 1, 249, 7, 64)).expect("exactly fits");
    assert_eq!(tokens(&run(&mut engine), 1), 7);
}

#[test]
fn an_adapter_without_a_slot_waits_while_others_pass() {
    let mut engine = engine(|c| c.max_loras = 1);
    for (id, lora, output) in [(1, Some("a"), 20), (2, Some("b"), 5), (3, None, 5), (4, Some("a"), 5)] {
        let request = Request { lora: lora.map(Into::into), ..request(id, id, 100, output, 64) };
        engine.submit(Nanos(0), request).expect("room");
    }
    engine.advance(Nanos(0), &mut Vec::new());
    assert_eq!((engine.running(), engine.waiting(), engine.deferred()), (3, 1, 1));
    let (running, waiting) = engine.adapters();
    assert_eq!((running, waiting), (vec!["a".into()], vec!["b".into()]));
    let events = run(&mut engine);
    assert!(first(&events, 2) > finished(&events, 1), "b gets the slot when a is idle");
    assert!(first(&events, 3) < finished(&events, 1));
}

#[test]
fn an_adapter_costs_its_load_once_and_a_share_of_every_step() {
    let times = |lora: Option<&str>| {
        let mut engine = engine(|c| (c.lora_load, c.lora_step_factor) = (Duration::from_millis(10), 1.15));
        let mut at = |id, start| {
            let request = Request { lora: lora.map(Into::into), ..request(id, id, 1_000, 10, 64) };
            engine.submit(Nanos(start), request).expect("room");
            let events = run(&mut engine);
            (first(&events, id) - start as f64 / MS, finished(&events, id) - start as f64 / MS)
        };
        (at(1, 0), at(2, 1_000 * MS as u64))
    };
    let (plain, _) = times(None);
    let (cold, warm) = times(Some("a"));
    close(cold.0, 10.0 + plain.0 * 1.15);
    close(warm.0, plain.0 * 1.15);
    close(warm.1, plain.1 * 1.15);
}

#[test]
fn constant_latencies_follow_the_worked_example() {
    let mut engine = latency(
        Latency {
            time_to_first_token: Duration::from_millis(100),
            inter_token_latency: Duration::from_millis(12),
            time_factor_under_load: 2.0,
            ..Latency::default()
        },
        |c| c.max_num_seqs = 5,
    );
    // Two others run throughout, so R = 3 and the load factor is 1.5.
    for (id, output) in [(1, 400), (2, 400), (3, 11)] {
        engine.submit(Nanos(0), request(id, id, 100, output, 16)).expect("room");
    }
    let events = run(&mut engine);
    assert_eq!(first(&events, 3), 150.0);
    assert_eq!(finished(&events, 3), 330.0);
}

#[test]
fn a_cancelled_request_gives_its_seat_to_the_next() {
    let slow = Latency { time_to_first_token: Duration::from_secs(10), ..Latency::default() };
    let mut engine = latency(slow, |c| c.max_num_seqs = 2);
    for id in 1..=3 {
        engine.submit(Nanos(0), request(id, id, 100, 5, 16)).expect("room");
    }
    engine.advance(Nanos(0), &mut Vec::new());
    assert!(engine.cancel(1) && !engine.cancel(1));
    let at = engine.next_event().expect("someone waits");
    engine.advance(at, &mut Vec::new());
    assert_eq!((engine.running(), engine.waiting()), (2, 0));
    assert!(engine.cancel(2) && engine.cancel(3));
    assert_eq!(engine.pool().usage(), 0.0);
    assert_eq!(engine.next_event(), None);
}

#[test]
fn tokens_of_many_steps_in_one_advance_are_one_event_and_keep_their_time() {
    let mut engine = engine(|_| ());
    engine.submit(Nanos(0), request(1, 1, 1_000, 10, 64)).expect("room");
    let mut events = Vec::new();
    engine.advance(Nanos(10_000_000_000), &mut events);
    let kinds: Vec<What> = events.iter().map(|e| e.what).collect();
    assert_eq!(
        kinds,
        [
            What::Admitted { cached_tokens: 0 },
            What::Tokens { count: 1, first: true },
            What::Tokens { count: 9, first: false },
            What::Finished
        ]
    );
    close(finished(&events, 1), 88.70);
}

#[test]
fn timing_can_change_while_requests_run() {
    let mut engine = engine(|_| ());
    engine.submit(Nanos(0), request(1, 1, 20_000, 50, 64)).expect("room");
    let mut events = Vec::new();
    engine.advance(Nanos(400_000_000), &mut events);
    let ten = Latency { inter_token_latency: Duration::from_millis(10), ..Latency::default() };
    engine.set_timing(Nanos(400_000_000), Timing::Latency(ten));
    engine.advance(Nanos(600_000_000), &mut events);
    engine.set_timing(Nanos(600_000_000), Timing::Step(Profile::named("8b-h100").expect("known").costs()));
    events.extend(run(&mut engine));
    assert_eq!(tokens(&events, 1), 50);
}

proptest! {
    /// Whatever is asked and cancelled: everything that stays gets exactly its tokens, in order, and all blocks come back.
    #[test]
    fn every_request_gets_its_tokens_and_gives_back_its_blocks(
        requests in proptest::collection::vec((0_u64..4, 1_u64..150, 1_u64..60, 0_u64..50_000_000, any::<bool>(), 0_u8..3), 1..25),
        batched in any::<bool>(),
    ) {
        let mut engine = if batched {
            engine(|c| { c.blocks = 16; c.block_size = 16; c.max_num_seqs = 6; c.max_num_batched_tokens = 64; c.max_loras = 1; })
        } else {
            let timing = Latency { time_to_first_token: Duration::from_millis(5), inter_token_latency: Duration::from_millis(1), ..Latency::default() };
            latency(timing, |c| { c.blocks = 16; c.max_num_seqs = 6; })
        };
        let mut now = Nanos(0);
        let mut events = Vec::new();
        let mut kept = Vec::new();
        for (id, (family, prompt, output, gap, cancel, lora)) in requests.into_iter().enumerate() {
            let id = id as u64;
            now = Nanos(now.0 + gap);
            engine.advance(now, &mut events);
            let lora = match lora { 0 => Some("a".into()), 1 => Some("b".into()), _ => None };
            engine.submit(now, Request { lora, ..request(id, family, prompt, output, 16) }).expect("small enough, and the queue is long");
            if cancel && id > 0 {
                engine.cancel(id - 1);
                kept.retain(|(k, _)| *k != id - 1);
            }
            kept.push((id, output));
        }
        events.extend(run(&mut engine));
        for (id, output) in kept {
            prop_assert_eq!(tokens(&events, id), output);
            prop_assert_eq!(events.iter().filter(|e| e.id == id && e.what == What::Finished).count(), 1);
        }
        prop_assert_eq!(engine.pool().free(), 16);
        prop_assert_eq!(engine.inside(), 0);
    }
}
