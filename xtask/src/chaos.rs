//! `cargo xtask chaos`: an engine is killed under load and comes back; what did clients see?
//!
//! Every request must end in a complete answer or, when its stream had begun on the engine that died, in an error event.
//! Nothing may hang, the dead endpoint must be out within a second, and must return by itself.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use clap::Args;
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::completion::{Answer, End, complete};
use crate::pointsman::{self, Engine, Gateway};
use crate::process::free_port;
use crate::report::{Tally, check};
use crate::workspace;

/// How hard, for how long, and when the engine dies.
#[derive(Args)]
pub(crate) struct Options {
    /// Requests per second, half of them streamed
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Seconds of load
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(4..=3_600))]
    seconds: u32,
}

impl Options {
    /// What continuous integration runs.
    pub(crate) fn standard() -> Self {
        Self { rate: 200, seconds: 20 }
    }
}

const ENGINES: usize = 3;
const MODEL: &str = "demo";

/// A request takes a quarter of a second here; one without an end after this long hangs.
const DEADLINE: Duration = Duration::from_secs(15);

/// The dead endpoint must be out within this time.
const OUT_WITHIN: Duration = Duration::from_secs(1);

/// A returned engine must be taken back within this time: an ejection of 10 s, and what health checks need.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// Runs the load with its accident.
pub(crate) async fn run(options: &Options) -> Result<Tally> {
    let binary = pointsman::build()?;
    let folder = workspace::scratch("chaos")?;
    let client = Client::new();
    let mut engines = Vec::new();
    for at in 0..ENGINES {
        engines.push(start_engine(&binary, &folder, at, free_port()?)?);
    }
    for engine in &mut engines {
        engine.ready(&client).await?;
    }
    let addresses: Vec<SocketAddr> = engines.iter().map(|engine| engine.address).collect();
    let gateway = Gateway::start(&client, &binary, &folder, "serve", &addresses, None).await?;
    println!("{} requests/s for {} s on {ENGINES} engines; logs: {}", options.rate, options.seconds, folder.display());

    let victim = addresses[0];
    let start = Instant::now();
    let quarter = Duration::from_secs(u64::from(options.seconds)) / 4;
    let (answers, accident) = tokio::join!(
        load(&client, &gateway, options, start),
        accident(&client, &gateway, &binary, &folder, &mut engines, start + quarter, start + 2 * quarter),
    );
    let accident = accident?;

    let mut tally = Tally::default();
    report(&answers, victim, start, &accident, &mut tally);
    Ok(tally)
}

fn start_engine(binary: &Path, folder: &Path, at: usize, address: SocketAddr) -> Result<Engine> {
    let flags = ["--model", MODEL, "--profile", "8b-h100", "--max-num-seqs", "256"];
    Engine::start(binary, folder, &format!("engine-{at}"), address, &flags)
}

/// A request with the moment it was sent.
struct Sent {
    at: Instant,
    answer: Answer,
}

/// Sends requests at an even rate, whatever becomes of the earlier ones.
async fn load(client: &Client, gateway: &Gateway, options: &Options, start: Instant) -> Vec<Sent> {
    let total = u64::from(options.rate) * u64::from(options.seconds);
    let mut running = JoinSet::new();
    for number in 0..total {
        tokio::time::sleep_until((start + Duration::from_secs(number) / options.rate).into()).await;
        let body = json!({
            "model": MODEL,
            "prompt": format!("Request {number} asks for the way to platform {}.", number % 97),
            "max_tokens": 16,
            "ignore_eos": true,
            "stream": number % 2 == 0,
        });
        let (client, url) = (client.clone(), gateway.url("/v1/completions"));
        running.spawn(async move {
            let at = Instant::now();
            Sent { at, answer: complete(&client, &url, Bytes::from(body.to_string()), DEADLINE).await }
        });
    }
    let mut sent = running.join_all().await;
    for one in &mut sent {
        one.answer.endpoint = gateway.address_of(&one.answer.endpoint);
    }
    sent
}

/// What happened to the endpoint.
struct Accident {
    killed: Instant,
    /// From the kill until the endpoint was out.
    out_after: Option<Duration>,
    /// From the engine's restart until the endpoint was ready again, and that moment.
    back: Option<(Duration, Instant)>,
    /// Requests that needed another endpoint, among the latest records around the kill.
    retried: usize,
}

/// Kills the first engine at `kill_at`, starts it again on the same port at `restart_at`, and watches its endpoint.
async fn accident(
    client: &Client,
    gateway: &Gateway,
    binary: &Path,
    folder: &Path,
    engines: &mut [Engine],
    kill_at: Instant,
    restart_at: Instant,
) -> Result<Accident> {
    tokio::time::sleep_until(kill_at.into()).await;
    let victim = engines[0].address;
    let killed = Instant::now();
    engines[0].kill();
    let out_after = until(client, gateway, victim, false, OUT_WITHIN * 3).await;
    // The retried ones have to end first; what has ended since is less than the thousand looked at.
    let settled = Instant::now() + (restart_at - kill_at) / 2;
    tokio::time::sleep_until(settled.min(killed + Duration::from_secs(2)).into()).await;
    let outcomes = gateway.outcomes(client, 1_000).await?;
    let retried = outcomes.iter().filter(|outcome| outcome.retries > 0).count();

    tokio::time::sleep_until(restart_at.into()).await;
    let restarted = Instant::now();
    engines[0] = start_engine(binary, folder, 0, victim).context("the engine did not start again")?;
    let back = until(client, gateway, victim, true, BACK_WITHIN).await;
    Ok(Accident { killed, out_after, back: back.map(|after| (after, restarted + after)), retried })
}

/// How long it takes until the endpoint is ready, or is not; `None` when it takes longer than `limit`.
async fn until(
    client: &Client,
    gateway: &Gateway,
    address: SocketAddr,
    ready: bool,
    limit: Duration,
) -> Option<Duration> {
    let start = Instant::now();
    let address = address.to_string();
    while start.elapsed() < limit {
        if let Ok(states) = gateway.endpoints(client).await
            && states.iter().any(|state| state.address == address && state.ready == ready)
        {
            return Some(start.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    None
}

fn report(sent: &[Sent], victim: SocketAddr, start: Instant, accident: &Accident, tally: &mut Tally) {
    let count = |matches: fn(&End) -> bool| sent.iter().filter(|one| matches(&one.answer.end)).count();
    let complete = count(|end| matches!(end, End::Complete));
    let error_events = count(|end| matches!(end, End::ErrorEvent(_)));
    let others = sent.len() - complete - error_events;
    println!(
        "  {} requests: {complete} complete, {error_events} streams ended by an error event, {others} other",
        sent.len()
    );
    println!("  {} of the latest 1,000 decisions after the kill were retried on another endpoint", accident.retried);
    for one in sent.iter().filter(|one| !matches!(one.answer.end, End::Complete)).take(8) {
        let after = one.at.saturating_duration_since(start).as_secs_f64();
        println!("    sent at {after:.3} s to {}: {:?}", one.answer.endpoint, one.answer.end);
    }

    check(tally, others == 0, "every request ended in a complete answer, or its begun stream in an error event");
    let victim = victim.to_string();
    let strays = sent
        .iter()
        .filter(|one| matches!(one.answer.end, End::ErrorEvent(_)))
        .filter(|one| one.answer.endpoint != victim || one.at > accident.killed + OUT_WITHIN)
        .count();
    check(tally, strays == 0, "only streams on the killed engine ended early");
    check(tally, accident.retried > 0, "requests without a first byte were retried elsewhere");
    let out = accident.out_after;
    check(tally, out.is_some_and(|after| after <= OUT_WITHIN), format!("the endpoint is out within 1 s ({out:.2?})"));
    let back = accident.back.map(|(after, _)| after);
    check(tally, back.is_some(), format!("the endpoint comes back by itself within {BACK_WITHIN:?} ({back:.2?})"));
    let ended = sent.iter().map(|one| one.at).max().unwrap_or(start);
    match accident.back.filter(|(_, moment)| *moment + Duration::from_secs(1) < ended) {
        Some((_, moment)) => {
            let served = sent.iter().filter(|one| one.at > moment && one.answer.endpoint == victim).count();
            check(tally, served > 0, format!("the returned engine serves again ({served} requests)"));
        }
        None => println!("  the load ended before the endpoint was back; that it serves again was not seen"),
    }
}
