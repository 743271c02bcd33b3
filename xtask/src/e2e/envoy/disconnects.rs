//! Clients that leave, in every phase of a request: nothing may stay in flight.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::ask::{APIS, End, ask, body};
use super::stack::{Plan, Stack, Tools};
use super::wire::{Raw, head};
use crate::report::{Tally, check};

/// Clients that leave in each phase.
const CLIENTS: usize = 10;

/// A count may take this long to rise and to fall.
const SOON: Duration = Duration::from_secs(5);

/// The cases.
pub(super) async fn run(tools: &Tools, tally: &mut Tally) -> Result<()> {
    let plan = Plan {
        name: "disconnects",
        engine_flags: &["--time-to-first-token", "800ms", "--inter-token-latency", "50ms", "--mode", "echo"],
        plugins: "- {type: inflight-load-producer}\n",
        ..Plan::ORDINARY
    };
    let stack = Stack::start(tools, plan).await?;
    let path = APIS[0];
    let text = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen";
    let request = body(path, text, true).to_string();
    let head = head(path, &format!("content-length: {}\r\n", request.len()));

    let clients = connected(&stack, &[head.as_bytes(), &request.as_bytes()[..request.len() / 2]]).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(clients);
    let left = settles(tools, &stack, |count| count == 0.0).await?;
    check(tally, left == 0.0, format!("clients that leave before the end of their body leave nothing ({left})"));

    let clients = connected(&stack, &[head.as_bytes(), request.as_bytes()]).await?;
    let flying = settles(tools, &stack, |count| count > 0.0).await?;
    check(tally, flying > 0.0, format!("requests that wait for their first byte are in flight ({flying})"));
    drop(clients);
    let left = settles(tools, &stack, |count| count == 0.0).await?;
    check(tally, left == 0.0, format!("clients that leave before the first byte leave nothing in flight ({left})"));

    let mut clients = connected(&stack, &[head.as_bytes(), request.as_bytes()]).await?;
    for client in &mut clients {
        client.until("\"content\":\" ").await.or(client.until("data: ").await)?;
    }
    let flying = settles(tools, &stack, |count| count > 0.0).await?;
    check(tally, flying > 0.0, format!("streams are in flight while they last ({flying})"));
    drop(clients);
    let left = settles(tools, &stack, |count| count == 0.0).await?;
    check(tally, left == 0.0, format!("clients that leave in mid-stream leave nothing in flight ({left})"));

    let told = ask(&tools.client, &stack.url(""), path, "still there?", true).await;
    check(tally, told.end == End::Right, format!("the next client is served ({:?})", told.end));
    let left = settles(tools, &stack, |count| count == 0.0).await?;
    check(tally, left == 0.0, format!("a request that ends well leaves nothing in flight ({left})"));
    Ok(())
}

/// Clients that have sent these parts of a request, and wait.
async fn connected(stack: &Stack, parts: &[&[u8]]) -> Result<Vec<Raw>> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut raw = Raw::connect(stack.address).await?;
        for part in parts {
            raw.send(part).await?;
        }
        clients.push(raw);
    }
    Ok(clients)
}

/// Waits until the picker's count of requests in flight is as wanted; the count in the end.
async fn settles(tools: &Tools, stack: &Stack, wanted: fn(f64) -> bool) -> Result<f64> {
    let start = Instant::now();
    loop {
        let count = stack.pickers[0].in_flight(&tools.client).await?;
        if wanted(count) || start.elapsed() > SOON {
            return Ok(count);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
