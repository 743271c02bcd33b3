//! Runs of decode steps against the same steps one by one: the same events at the same times, whatever comes in between.

use std::collections::BTreeMap;
use std::time::Duration;

use pointsman_core::Nanos;
use pointsman_sim::{Engine, EngineConfig, Event, Leg, Profile, Request, Timing, What};
use proptest::prelude::*;

fn engine(coalesce: bool, change: impl FnOnce(&mut EngineConfig)) -> Engine {
    let mut config = EngineConfig { coalesce, ..EngineConfig::default() };
    change(&mut config);
    Engine::new(config, Timing::Step(Profile::named("8b-h100").expect("known").costs()))
}

fn request(id: u64, family: u64, prompt: u64, output: u64) -> Request {
    Request {
        id,
        blocks: (0..prompt / 16).map(|i| (family << 32) | i).collect(),
        prompt_tokens: prompt,
        output_tokens: output,
        ..Request::default()
    }
}

/// Until nothing happens by itself.
fn settle(engine: &mut Engine, events: &mut Vec<Event>) {
    for _ in 0..200_000 {
        let Some(at) = engine.next_event() else { return };
        engine.advance(at, events);
    }
    panic!("the engine must come to rest");
}

#[test]
fn a_hundred_steps_of_ten_contexts_are_one_jump_of_710_48_ms_and_60_blocks() {
    let mut engine = engine(true, |c| c.max_num_batched_tokens = 16_384);
    for id in 0..10 {
        engine.submit(Nanos(0), request(id, id, 1_000, 101)).expect("room");
    }
    let mut events = Vec::new();
    engine.advance(Nanos(0), &mut events);
    let begin = engine.next_event().expect("the prompts are computed");
    engine.advance(begin, &mut events);
    let used = |engine: &Engine| engine.pool().total() - engine.pool().free();
    let (before, end) = (used(&engine), engine.next_event().expect("they decode"));
    let ms = end.since(begin).as_secs_f64() * 1e3;
    assert!((ms - 710.48).abs() < 0.01, "{ms}");
    engine.advance(Nanos(end.0 - 1), &mut events);
    assert_eq!((before, used(&engine)), (630, 690));
    engine.advance(end, &mut events);
    assert_eq!((engine.stats().steps, engine.inside(), engine.next_event()), (101, 0, None));
}

#[test]
fn noise_of_a_run_is_that_of_the_mean_of_its_steps() {
    let total = |coalesce, seed| {
        let mut costs = Profile::named("8b-h100").expect("known").costs();
        costs.noise = 0.1;
        let mut engine = Engine::new(EngineConfig { coalesce, seed, ..EngineConfig::default() }, Timing::Step(costs));
        engine.submit(Nanos(0), request(1, 1, 16, 401)).expect("room");
        let mut events = Vec::new();
        settle(&mut engine, &mut events);
        events.last().expect("it finishes").at.0 as f64
    };
    let spread = |coalesce| {
        let values: Vec<f64> = (0..200).map(|seed| total(coalesce, seed)).collect();
        let mean = values.iter().sum::<f64>() / 200.0;
        (values.iter().map(|v| (v / mean - 1.0).powi(2)).sum::<f64>() / 200.0).sqrt()
    };
    let (jumps, steps) = (spread(true), spread(false));
    assert!(jumps / steps < 1.3 && steps / jumps < 1.3, "{jumps} {steps}");
    assert!((0.003..0.008).contains(&jumps), "0.1 / sqrt(400), not {jumps}");
}

#[derive(Clone, Debug)]
enum Op {
    Submit { family: u64, prompt: u64, output: u64, lora: u8, leg: Leg },
    Cancel(u64),
    Receive(u64),
    Release(u64),
    Look,
}

fn op() -> impl Strategy<Value = Op> {
    let leg = prop_oneof![6 => Just(Leg::Whole), 1 => Just(Leg::Prefill), 1 => Just(Leg::Decode)];
    let submit = (0_u64..4, 1_u64..150, 1_u64..100, 0_u8..4, leg)
        .prop_map(|(family, prompt, output, lora, leg)| Op::Submit { family, prompt, output, lora, leg });
    let id = || 0_u64..30;
    prop_oneof![
        8 => submit,
        2 => id().prop_map(Op::Cancel),
        2 => id().prop_map(Op::Receive),
        1 => id().prop_map(Op::Release),
        4 => Just(Op::Look),
    ]
}

/// What can be seen of an engine.
fn look(engine: &Engine) -> (usize, usize, usize, usize, u64, usize) {
    let counts = (engine.waiting(), engine.running());
    (counts.0, counts.1, engine.pool().free(), engine.pool().cached(), engine.prefill_left(), engine.held_blocks())
}

fn apply(engine: &mut Engine, now: Nanos, id: u64, op: &Op) -> bool {
    match op {
        Op::Submit { family, prompt, output, lora, leg } => {
            let lora = match lora {
                0 => Some("a".into()),
                1 => Some("b".into()),
                _ => None,
            };
            let request = Request { lora, leg: *leg, ..request(id, *family, *prompt, *output) };
            engine.submit(now, request).is_ok()
        }
        Op::Cancel(id) => engine.cancel(*id),
        Op::Receive(id) => engine.receive(*id),
        Op::Release(id) => engine.release(*id),
        Op::Look => true,
    }
}

/// Tokens of one request by the time at which they came, as far as any two ways of looking agree on: the first, the last, how many; and all else.
type Fate = (Option<Nanos>, Nanos, u64, Vec<(Nanos, String)>);

fn fates(events: &[Event]) -> BTreeMap<u64, Fate> {
    let mut fates: BTreeMap<u64, Fate> = BTreeMap::new();
    for event in events {
        let fate = fates.entry(event.id).or_insert((None, Nanos(0), 0, Vec::new()));
        match event.what {
            What::Tokens { count, first } => {
                if first {
                    fate.0 = Some(event.at);
                }
                (fate.1, fate.2) = (event.at, fate.2 + count);
            }
            what => fate.3.push((event.at, format!("{what:?}"))),
        }
    }
    fates
}

fn small(coalesce: bool, seats: usize, overhead: u64) -> Engine {
    engine(coalesce, |c| {
        c.blocks = 24;
        c.max_num_seqs = seats;
        c.max_num_batched_tokens = 64;
        c.api_overhead = Duration::from_micros(overhead);
        c.lora_load = Duration::from_millis(3);
        c.lora_step_factor = 1.1;
        c.hold = Duration::from_millis(150);
    })
}

/// Plays to the end, waking at each event where `eager`, else only when something comes from outside.
fn play(
    engine: &mut Engine,
    ops: &[(u64, Op)],
    eager: bool,
    seen: &mut Vec<(usize, usize, usize, usize, u64, usize)>,
) -> Vec<Event> {
    let (mut now, mut events) = (Nanos(0), Vec::new());
    for (id, (gap, op)) in ops.iter().enumerate() {
        now = Nanos(now.0 + gap);
        while let Some(at) = engine.next_event().filter(|at| eager && *at <= now) {
            engine.advance(at, &mut events);
        }
        engine.advance(now, &mut events);
        apply(engine, now, id as u64, op);
        seen.push(look(engine));
    }
    for _ in 0..=ops.len() {
        settle(engine, &mut events);
        let last = events.last().map_or(now, |event| event.at.max(now));
        engine.advance(last, &mut events);
        for id in 0..ops.len() as u64 {
            engine.receive(id);
        }
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn jumps_change_nothing_but_the_number_of_events(
        ops in proptest::collection::vec((prop_oneof![Just(0_u64), 0_u64..200_000_000], op()), 1..30),
        seats in 1_usize..7, overhead in prop_oneof![Just(0_u64), 0_u64..15_000],
    ) {
        let [mut jumps, mut steps, mut woken, mut woken_steps] = [true, false, true, false].map(|c| small(c, seats, overhead));
        let [mut a, mut b, mut c, mut d] = [const { Vec::new() }; 4];
        let lazy = play(&mut jumps, &ops, false, &mut a);
        prop_assert_eq!(&fates(&lazy), &fates(&play(&mut steps, &ops, false, &mut b)), "jumps against steps");
        prop_assert_eq!(&fates(&lazy), &fates(&play(&mut woken, &ops, true, &mut c)), "woken at each event or late");
        prop_assert_eq!(&fates(&lazy), &fates(&play(&mut woken_steps, &ops, true, &mut d)), "steps woken at each event");
        prop_assert_eq!(&a, &b);
        prop_assert_eq!(&a, &c);
        prop_assert_eq!(&a, &d);
        prop_assert_eq!(jumps.stats(), steps.stats());
        prop_assert_eq!(jumps.stats(), woken.stats());
        prop_assert_eq!((jumps.inside(), jumps.pool().free()), (0, 24));
    }

    /// As above, event by event: whoever wakes an engine at given times sees the same list.
    #[test]
    fn jumps_give_the_same_list_of_events(
        ops in proptest::collection::vec((0_u64..60_000_000, op()), 1..30), seats in 1_usize..7,
    ) {
        let [mut jumps, mut steps] = [true, false].map(|c| small(c, seats, 0));
        let (mut now, mut a, mut b) = (Nanos(0), Vec::new(), Vec::new());
        for (id, (gap, op)) in ops.iter().enumerate() {
            now = Nanos(now.0 + gap);
            jumps.advance(now, &mut a);
            steps.advance(now, &mut b);
            prop_assert_eq!(&a, &b);
            prop_assert_eq!(apply(&mut jumps, now, id as u64, op), apply(&mut steps, now, id as u64, op));
        }
    }
}
