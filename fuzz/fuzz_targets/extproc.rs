//! Streams of ext-proc messages: bytes of any kind, framed or raw, cut anywhere, aborted anywhere; nothing panics, at most one decision is made, and
//! nothing is left in flight.
#![no_main]

use bytes::{Buf, Bytes};
use pointsman_config::Faults;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_extproc::{Exchange, ExtProcOptions, Shared};
use pointsman_fleet::EndpointMeta;
use pointsman_grpc::{Call as _, Frames, Message, Out, Writer};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions};
use std::sync::{Arc, OnceLock};

fn shared() -> &'static (Arc<Pool>, Arc<Shared>) {
    static SHARED: OnceLock<(Arc<Pool>, Arc<Shared>)> = OnceLock::new();
    SHARED.get_or_init(|| {
        // A panic that the exchange would turn into an answer is what is looked for here.
        std::panic::set_hook(Box::new(|_| std::process::abort()));
        let states = Arc::<LearnedStates>::default();
        let options =
            CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states: Arc::clone(&states) };
        let compiled = compile(b"", &options, &mut Faults::new()).expect("the default compiles");
        let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
        let pool = Pool::new(PoolOptions { clock, states, ..PoolOptions::default() }, compiled);
        for name in ["a", "b"] {
            pool.fleet.upsert(EndpointMeta::new(EndpointName::new("default", name), name, 8000));
        }
        let options = ExtProcOptions {
            emit_endpoint_scores: true,
            emit_decision_id: true,
            max_body_bytes: 1 << 16,
            ..ExtProcOptions::default()
        };
        let shared = Shared::new(Arc::clone(&pool), options);
        (pool, shared)
    })
}

/// A message made of a few bytes: mostly sound, so that the states behind are reached.
fn made(kind: u8, flags: u8, text: &[u8]) -> Message {
    let end = flags & 1 != 0;
    let mut w = Writer::default();
    match kind % 6 {
        field @ (0 | 3) => w.message(if field == 0 { 2 } else { 3 }, |w| {
            w.message(1, |map| {
                let named: [(&[u8], &[u8]); 5] = [
                    (b":path", if flags & 2 != 0 { b"/v1/completions" } else { b"/v1/chat/completions" }),
                    (b":status", b"200"),
                    (b"content-type", if flags & 4 != 0 { b"text/event-stream" } else { b"application/json" }),
                    (b"x-llm-d-model-name-rewrite", if flags & 8 != 0 { b"other" } else { b"" }),
                    (b"x-any", text),
                ];
                for (name, value) in named {
                    map.message(1, |header| {
                        header.bytes(1, name);
                        header.bytes(3, value);
                    });
                }
            });
            w.flag(3, end);
        }),
        field @ (1 | 4) => w.message(if field == 1 { 4 } else { 5 }, |w| {
            w.bytes(1, text);
            w.flag(2, end);
        }),
        field => w.message(if field == 2 { 6 } else { 7 }, |_| {}),
    }
    if flags & 16 != 0 {
        w.message(11, |config| {
            config.varint(1, u64::from(flags >> 5));
            config.varint(2, u64::from(kind >> 5));
        });
    }
    if flags & 32 != 0 {
        w.bytes(8, text);
    }
    Message::from(w.finish())
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let (pool, shared) = shared();
    let mut exchange = Exchange::new(Arc::clone(shared));
    let mut out = Out::default();
    let mut sent = Frames::new(usize::MAX, false);
    let mut rest = data;
    while let [kind, flags, length, more @ ..] = rest {
        let (text, more) = more.split_at(more.len().min(usize::from(*length)));
        rest = more;
        match kind {
            // Bytes as they are.
            250..=255 => exchange.message(Message::from(Bytes::copy_from_slice(text)), &mut out),
            249 => exchange.half_closed(&mut out),
            _ => exchange.message(made(*kind, *flags, text), &mut out),
        }
        let mut rope = out.take();
        while rope.has_remaining() {
            let n = rope.chunk().len();
            sent.push(rope.copy_to_bytes(n));
        }
    }
    while sent.take().expect("sound frames").is_some() {}
    assert!(!sent.within(), "half a message was sent");
    drop(exchange);
    let left: u64 = pool.fleet.snapshot().endpoints.iter().map(|e| e.load.requests() + e.load.tokens()).sum();
    assert_eq!((left, shared.held_bytes()), (0, 0), "every request ends");
});
