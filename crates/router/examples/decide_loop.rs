//! Decisions in a loop, to count instructions where the clock is too noisy:
//!
//!     cargo build --release -p pointsman-router --example decide_loop
//!     valgrind --tool=callgrind --toggle-collect='*decide*decide*' target/release/examples/decide_loop 10 1000
//!
//! Arguments: endpoints, decisions.

#[path = "../benches/setup/mod.rs"]
mod setup;

use pointsman_scheduling::Termination;

fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<usize>().expect("a number"));
    let (endpoints, decisions) = (args.next().unwrap_or(10), args.next().unwrap_or(1000));
    let pool = setup::pool(endpoints);
    let readings: Vec<_> = (0..decisions).map(|i| setup::reading(&pool, setup::body(i + 1, 8_000), None)).collect();
    let mut kept = Vec::with_capacity(decisions);
    for reading in readings {
        kept.push(reading.decide().expect("routed"));
    }
    for routed in kept {
        routed.finish(Termination::Natural, None);
    }
}
