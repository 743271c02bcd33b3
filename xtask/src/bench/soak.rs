//! `cargo xtask soak extproc`: hours in minutes. Half of the maximum rate, requests given up in every phase, memory watched.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use tokio::task::{JoinSet, LocalSet};

use super::exchange::{self, Exchange, Fault};
use super::load::Load;
use super::machine;
use super::pace::Pace;
use super::samples::Faults;
use super::script::{Reply, Script};
use super::stream::Connection;
use super::subject::{Bench, Server, Subject};
use crate::report::{Tally, check};
use crate::text::Draw;

const EXAMPLES: &str = "Examples:
  cargo xtask soak extproc                      twenty minutes
  cargo xtask soak extproc --minutes 2          a first look";

/// How long, and what is kept under load.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Minutes of load
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
    /// Requests given up, of a hundred
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=100))]
    aborts: u64,
    /// The server
    #[arg(long, value_enum, default_value_t = Server::Epp)]
    pub(super) server: Server,
    /// A further flag for `pointsman epp`; may be repeated
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub(super) epp_flag: Vec<String>,
}

const ENGINES: u32 = 10;
const CONNECTIONS: usize = 4;

/// How long the maximum rate is looked for.
const PROBE: Duration = Duration::from_secs(5);

/// Memory of the last quarter may exceed that of the second by this share, and by this many MiB: caches fill up first.
const GROWTH: (f64, f64) = (1.10, 2.0);

/// A request without an end after this long hangs.
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs the soak.
pub(super) async fn run(bench: &Bench, options: &Options) -> Result<Tally> {
    let mut subject = Subject::start(bench, options.server, ENGINES).await?;
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(subject.address).await?);
    }
    let load = Load { connections, scripts: Rc::new(scripts()), next: Rc::new(Cell::new(1)) };
    let most = load.closed(32, PROBE).await;
    let rate = (most.done as f64 / most.wall.as_secs_f64() / 2.0).max(1.0) as u32;
    eprintln!("{} takes {}/s; {} minutes at {rate}/s", options.server.name(), rate * 2, options.minutes);

    let minutes = Duration::from_secs(60 * options.minutes);
    let (outcome, memory) = LocalSet::new()
        .run_until(async {
            tokio::join!(under_load(&load, rate, minutes, options.aborts), watch(&mut subject, minutes))
        })
        .await;
    let (outcome, memory) = (outcome?, memory?);

    let mut tally = Tally::default();
    println!("  {} requests ended, {} were given up", outcome.ended, outcome.given_up);
    for text in outcome.faults.texts() {
        println!("    {text}");
    }
    let (failed, wrong) = (outcome.faults.failed, outcome.faults.wrong);
    check(&mut tally, most.faults.count() == 0, "no request failed while the maximum rate was looked for");
    check(
        &mut tally,
        failed == 0 && wrong == 0,
        format!("no request failed ({failed}) or was answered wrongly ({wrong})"),
    );
    let given_up = outcome.given_up_in.iter().all(|&count| count > 0) || options.aborts == 0;
    check(&mut tally, given_up, format!("requests were given up in every phase {:?}", outcome.given_up_in));
    let (early, late) = halves(&memory);
    let flat = late <= (early * GROWTH.0).max(early + GROWTH.1);
    check(&mut tally, flat, format!("memory is flat: {early:.1} MiB in the second quarter, {late:.1} MiB in the last"));
    Ok(tally)
}

/// Mostly short bodies, some long ones; every fourth is answered with a stream.
fn scripts() -> Vec<Script> {
    let sizes = (0..256).map(|number| match number % 32 {
        0 => 220_000,
        1..=4 => 20_000,
        _ => 1_024 + 16 * number as usize,
    });
    let reply = |number: u64| if number.is_multiple_of(4) { Reply::events(60) } else { Reply::json() };
    sizes.zip(0..).map(|(size, number)| Script::chat(size, number, reply(number))).collect()
}

#[derive(Default)]
struct Outcome {
    ended: u64,
    given_up: u64,
    given_up_in: [u64; PHASES],
    faults: Faults,
}

/// Places where a request may be given up.
const PHASES: usize = 6;

async fn under_load(load: &Load, rate: u32, time: Duration, aborts: u64) -> Result<Outcome> {
    let pace = Pace::new()?;
    let outcome = Rc::new(RefCell::new(Outcome::default()));
    let mut running = JoinSet::new();
    let mut draw = Draw::new(11);
    let start = Instant::now();
    let mut step = 0_u32;
    while start.elapsed() < time {
        pace.until(start + Duration::from_secs(1) * step / rate).await?;
        step += 1;
        let number = load.next.replace(load.next.get() + 1);
        let connection = load.connections[number as usize % load.connections.len()].clone();
        let (scripts, outcome) = (Rc::clone(&load.scripts), Rc::clone(&outcome));
        let phase = (draw.between(0, 100) < aborts).then(|| draw.between(0, PHASES as u64) as usize);
        running.spawn_local(async move {
            let script = &scripts[number as usize % scripts.len()];
            let ended = async {
                match phase {
                    None => exchange::whole(&connection, script, number).await.map(drop),
                    Some(phase) => give_up(&connection, script, number, phase).await,
                }
            };
            let late = || Err(Fault::Failed(format!("no end within {DEADLINE:?}, given up in {phase:?}")));
            let ended = tokio::time::timeout(DEADLINE, ended).await.unwrap_or_else(|_| late());
            let mut outcome = outcome.borrow_mut();
            match (ended, phase) {
                (Ok(()), None) => outcome.ended += 1,
                (Ok(()), Some(phase)) => {
                    outcome.given_up += 1;
                    outcome.given_up_in[phase] += 1;
                }
                (Err(fault), _) => outcome.faults.push(fault),
            }
        });
        while running.try_join_next().is_some() {}
    }
    while running.join_next().await.is_some() {}
    Ok(outcome.take())
}

/// Takes a request to a phase and resets its stream there.
async fn give_up(connection: &Connection, script: &Script, number: u64, phase: usize) -> Result<(), Fault> {
    let mut exchange = Exchange::open(connection, script, number).await?;
    if phase >= 1 {
        // Without the last message, the body does not end.
        let all = script.messages.len();
        exchange.send_body(if phase == 1 { all / 2 } else { all }).await?;
    }
    if phase >= 3 {
        exchange.decision().await?;
    }
    if phase >= 4 {
        exchange.body_back().await?;
        exchange.response_headers().await?;
    }
    if phase >= 5 {
        exchange.send_response_body()?;
    }
    exchange.into_stream().reset();
    Ok(())
}

/// Samples memory until the load ends.
async fn watch(subject: &mut Subject, time: Duration) -> Result<Vec<f64>> {
    let start = Instant::now();
    let mut memory = Vec::new();
    let mut said = 0;
    while start.elapsed() < time {
        subject.must_be_alive()?;
        memory.push(machine::resident_memory(subject.id())?);
        if start.elapsed().as_secs() / 60 >= said {
            eprintln!("{said:>4} min  {:.1} MiB resident", memory[memory.len() - 1]);
            said += 1;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    Ok(memory)
}

/// Means of the second and of the last quarter.
fn halves(memory: &[f64]) -> (f64, f64) {
    let quarter = (memory.len() / 4).max(1);
    let mean = |samples: &[f64]| samples.iter().sum::<f64>() / samples.len().max(1) as f64;
    let second = memory.get(quarter..2 * quarter).unwrap_or(memory);
    (mean(second), mean(&memory[memory.len().saturating_sub(quarter)..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_looked_for_after_the_caches_are_full() {
        let memory: Vec<f64> = [1.0, 10.0, 10.0, 10.0].iter().flat_map(|&value| [value; 5]).collect();
        assert_eq!(halves(&memory), (10.0, 10.0));
        assert_eq!(halves(&[3.0]), (3.0, 3.0));
    }
}
