//! Does the router know what the engines hold? Predicted against actual hits, and against round robin.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};

use super::prompts::Prompt;
use super::server::{CacheCounters, Server};
use crate::client::Client;
use crate::completion::{Answer, End, complete};
use crate::pointsman::Gateway;
use crate::report::{Tally, check};

/// How long one short completion of the tiny model may take.
const DEADLINE: Duration = Duration::from_secs(60);

/// Sends `prompts` one after the other through a fresh gateway with cold caches, then round robin with cold caches again.
pub(crate) async fn run(
    client: &Client,
    binary: &Path,
    folder: &Path,
    servers: &[Server],
    prompts: &[Prompt],
    tally: &mut Tally,
) -> Result<()> {
    let routed = {
        reset(client, servers).await?;
        let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
        let gateway = Gateway::start(client, binary, folder, "serve-agreement", &addresses, None).await?;
        let before = counters(client, servers).await?;
        agree(client, &gateway, prompts, tally).await?;
        counters(client, servers).await? - before
    };

    reset(client, servers).await?;
    let before = counters(client, servers).await?;
    for (turn, prompt) in prompts.iter().enumerate() {
        let server = &servers[turn % servers.len()];
        served(&complete(client, &server.url(prompt.path), prompt.body.clone(), DEADLINE).await)?;
    }
    let round_robin = counters(client, servers).await? - before;

    println!("\n  by vLLM's own counters    looked up        found    hit");
    for (name, counted) in [("pointsman serve", routed), ("round robin", round_robin)] {
        let share = 100.0 * counted.hit_share();
        println!("  {name:<20} {:>9.0} tok {:>9.0} tok {share:>5.1} %", counted.queries, counted.hits);
    }
    let same = (routed.queries - round_robin.queries).abs() < 0.5;
    check(tally, same, "both runs looked the same number of tokens up");
    check(tally, round_robin.hits < routed.hits, "round robin hits less over the same requests");
    Ok(())
}

/// Prints both figures per request and checks that hit and miss agree for at least 95 in 100.
async fn agree(client: &Client, gateway: &Gateway, prompts: &[Prompt], tally: &mut Tally) -> Result<()> {
    println!("\n  request  group   bytes   prompt tok   cached: predicted    actual");
    let (mut agreeing, mut hits, mut misses, mut unread) = (0_usize, 0_usize, 0_usize, 0_usize);
    for (at, prompt) in prompts.iter().enumerate() {
        let answer = complete(client, &gateway.url(prompt.path), prompt.body.clone(), DEADLINE).await;
        served(&answer)?;
        let Some(usage) = answer.usage else { bail!("the engine reported no usage") };
        let Some(record) = gateway.outcome(client, &answer.decision).await else {
            bail!("no ended record of decision {:?}", answer.decision);
        };
        let agrees = (record.predicted > 0) == (usage.cached > 0);
        agreeing += usize::from(agrees);
        if usage.cached > 0 {
            hits += 1
        } else {
            misses += 1
        }
        unread += usize::from(record.cached != Some(usage.cached));
        println!(
            "  {at:>7} {:>6} {:>7} {:>12} {:>19} {:>9}{}",
            prompt.group,
            prompt.bytes,
            usage.prompt,
            record.predicted,
            usage.cached,
            if agrees { "" } else { "   disagree" }
        );
    }
    let share = 100.0 * agreeing as f64 / prompts.len() as f64;
    println!(
        "  hit or miss agrees for {agreeing} of {} requests ({share:.1} %); {hits} hits, {misses} misses",
        prompts.len()
    );
    check(tally, share >= 95.0, "predicted and actual hit or miss agree for at least 95 % of requests");
    check(tally, hits > 0 && misses > 0, "both hits and misses occurred");
    check(tally, unread == 0, "every record holds the cached tokens that the engine reported");
    Ok(())
}

fn served(answer: &Answer) -> Result<()> {
    if answer.end != End::Complete {
        bail!("a request of the run was not answered: {:?}", answer.end);
    }
    Ok(())
}

async fn reset(client: &Client, servers: &[Server]) -> Result<()> {
    for server in servers {
        server.reset_prefix_cache(client).await?;
    }
    Ok(())
}

async fn counters(client: &Client, servers: &[Server]) -> Result<CacheCounters> {
    let mut sum = CacheCounters::default();
    for server in servers {
        sum = sum + server.cache_counters(client).await?;
    }
    Ok(sum)
}
