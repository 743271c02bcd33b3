//! `cargo xtask e2e envoy`: a real Envoy, `pointsman epp` and simulated engines, seen from the client's side.

mod ask;
mod deaths;
mod disconnects;
mod load;
mod refusals;
mod stack;
mod surface;
mod wire;

use std::time::Instant;

use anyhow::Result;

use self::stack::{Plan, Stack, Tools};
use super::install;
use crate::client::Client;
use crate::report::{Tally, check};
use crate::{pointsman, workspace};

/// Requests of the large load, and how many of them at a time.
const LOAD: (u64, usize) = (10_000, 200);

/// Installs, starts, checks, stops; only the groups whose name holds `only`.
pub(crate) async fn run(only: &str) -> Result<Tally> {
    let tools = Tools {
        pointsman: pointsman::build()?,
        envoy: install::envoy()?,
        folder: workspace::scratch("e2e-envoy")?,
        client: Client::new(),
    };
    println!("logs: {}", tools.folder.display());
    let mut tally = Tally::default();
    macro_rules! group {
        ($name:literal, $work:expr) => {
            if $name.contains(only) {
                println!("\n  {}", $name);
                $work.await?;
            }
        };
    }
    group!("what users send", surface::run(&tools, &mut tally));
    group!("refusals", refusals::run(&tools, &mut tally));
    group!("disconnects", disconnects::run(&tools, &mut tally));
    group!("large load", large_load(&tools, &mut tally));
    group!("deaths", deaths::run(&tools, &mut tally));
    Ok(tally)
}

async fn large_load(tools: &Tools, tally: &mut Tally) -> Result<()> {
    let mut stack = Stack::start(tools, Plan { name: "load", ..Plan::ORDINARY }).await?;
    let start = Instant::now();
    let (count, concurrency) = LOAD;
    let told = load::run(&tools.client, &stack.url(""), concurrency, move |sent| sent < count).await;
    let (odd, first) = load::odd(&told);
    let rate = told.len() as f64 / start.elapsed().as_secs_f64();
    let all = told.len() as u64 == count;
    check(tally, all && odd == 0, format!("{count} requests, {concurrency} at a time: {odd} wrong or lost {first}"));
    let engines: std::collections::BTreeSet<&str> = told.iter().map(|one| one.engine.as_str()).collect();
    check(tally, engines.len() == 3, format!("all three engines took part ({} at {rate:.0}/s)", engines.len()));
    stack.must_be_alive()
}
