//! One policy's turn: fresh engines, a fresh gateway, the whole slice.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use bytes::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinSet;

use super::policy::Policy;
use super::statistics::{Sample, Summary};
use super::trace::Arrival;
use crate::client::Client;
use crate::completion::{End, complete};
use crate::pointsman::{Engine, Gateway};
use crate::process::free_port;

/// The served model's name.
pub(crate) const MODEL: &str = "demo";

/// Engines of the pool.
const ENGINES: usize = 8;

/// Simulated time that a request may take from arrival to end; the pool is far from that long a queue.
const DEADLINE: Duration = Duration::from_secs(1_800);

/// Runs the slice under one policy.
pub(crate) async fn run(
    client: &Client,
    binary: &Path,
    folder: &Path,
    policy: Policy,
    arrivals: &[Arrival],
    speed: f64,
) -> Result<Summary> {
    let speed_flag = speed.to_string();
    // 8B parameters on one H100: 27,280 blocks of 16 tokens fit beside the weights.
    let flags = [
        ["--model", MODEL],
        ["--profile", "8b-h100"],
        ["--max-num-seqs", "256"],
        ["--kv-cache-size", "27280"],
        ["--block-size", "16"],
        ["--max-model-len", "262144"],
        ["--speed", &speed_flag],
    ];
    let mut engines = Vec::with_capacity(ENGINES);
    for at in 0..ENGINES {
        let name = format!("{}-engine-{at}", policy.file_name());
        engines.push(Engine::start(binary, folder, &name, free_port()?, flags.as_flattened())?);
    }
    for engine in &mut engines {
        engine.ready(client).await?;
    }
    let addresses: Vec<SocketAddr> = engines.iter().map(|engine| engine.address).collect();
    let config = policy.config(folder)?;
    let name = format!("{}-serve", policy.file_name());
    let gateway = Arc::new(Gateway::start(client, binary, folder, &name, &addresses, config.as_deref()).await?);
    let samples = send_all(client, &gateway, arrivals, speed, policy.name()).await;
    Ok(Summary::of(policy.name(), &addresses, &samples))
}

/// Sends every request at its time and waits for all answers.
async fn send_all(
    client: &Client,
    gateway: &Arc<Gateway>,
    arrivals: &[Arrival],
    speed: f64,
    name: &'static str,
) -> Vec<Sample> {
    let bar = ProgressBar::new(arrivals.len() as u64);
    let template = "{msg:<14} [{bar:30}] {pos}/{len} answered, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).expect("a fixed template").progress_chars("=> "));
    bar.set_message(name);
    let mut running = JoinSet::new();
    let mut samples = Vec::with_capacity(arrivals.len());
    let start = Instant::now();
    let url = gateway.url("/v1/completions");
    for arrival in arrivals {
        // Made before its time comes, so that making it delays nobody.
        let body = arrival.body();
        let due = start + Duration::from_secs_f64(arrival.timestamp as f64 / 1e3 / speed);
        loop {
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(due.into()) => break,
                Some(done) = running.join_next() => samples.extend(keep(done, &bar)),
            }
        }
        let late = due.elapsed();
        let (client, gateway, url) = (client.clone(), Arc::clone(gateway), url.clone());
        running.spawn(async move { one(&client, &gateway, &url, body, late, speed).await });
    }
    while let Some(done) = running.join_next().await {
        samples.extend(keep(done, &bar));
    }
    bar.finish_and_clear();
    samples
}

fn keep(done: Result<Sample, tokio::task::JoinError>, bar: &ProgressBar) -> Option<Sample> {
    bar.inc(1);
    Some(
        done.unwrap_or_else(|error| Sample {
            failure: Some(format!("the client failed: {error}")),
            ..Sample::default()
        }),
    )
}

/// One request, its answer and its decision record, in simulated seconds.
async fn one(client: &Client, gateway: &Gateway, url: &str, body: Bytes, late: Duration, speed: f64) -> Sample {
    let answer = complete(client, url, body, DEADLINE.div_f64(speed) + Duration::from_secs(30)).await;
    let record = gateway.outcome(client, &answer.decision).await;
    let failure = match answer.end {
        End::Complete => None,
        other => Some(format!("{other:?}")),
    };
    Sample {
        // A client that sends late would otherwise flatter a slow pool.
        ttft: (late + answer.first).as_secs_f64() * speed,
        usage: answer.usage.unwrap_or_default(),
        predicted: record.map(|record| record.predicted),
        endpoint: gateway.address_of(&answer.endpoint),
        failure,
    }
}
