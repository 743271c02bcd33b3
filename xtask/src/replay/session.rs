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

/// Simulated time that a request may take from arrival to end; the pool is far from that long a queue.
const DEADLINE: Duration = Duration::from_secs(1_800);

/// What all turns have in common.
pub(crate) struct Stage<'a> {
    /// The binary under test.
    pub(crate) binary: &'a Path,
    /// Where logs go.
    pub(crate) folder: &'a Path,
    /// Engines of the pool.
    pub(crate) engines: usize,
    /// Flags of each beside model, seed and speed.
    pub(crate) flags: &'a [[&'a str; 2]],
    /// How many times faster than real time it all runs.
    pub(crate) speed: f64,
}

impl Stage<'_> {
    /// Plays all requests under one policy; the turn is called `name`.
    pub(crate) async fn play(
        &self,
        client: &Client,
        name: &str,
        policy: Policy,
        arrivals: &[Arrival],
    ) -> Result<Summary> {
        let speed = self.speed.to_string();
        let name_of_files = name.replace(' ', "-");
        let mut engines = Vec::with_capacity(self.engines);
        for at in 0..self.engines {
            let seed = at.to_string();
            let own = [["--model", MODEL], ["--speed", &speed], ["--seed", &seed]];
            let flags = [&own, self.flags].concat();
            let engine = format!("{name_of_files}-engine-{at}");
            engines.push(Engine::start(self.binary, self.folder, &engine, free_port()?, flags.as_flattened())?);
        }
        for engine in &mut engines {
            engine.ready(client).await?;
        }
        let addresses: Vec<SocketAddr> = engines.iter().map(|engine| engine.address).collect();
        let config = policy.config(self.folder)?;
        let serve = format!("{name_of_files}-serve");
        let gateway = Gateway::start(client, self.binary, self.folder, &serve, &addresses, config.as_deref()).await?;
        let samples = send_all(client, &Arc::new(gateway), arrivals, self.speed, name).await;
        Ok(Summary::of(name, &addresses, &samples))
    }
}

/// Sends every request at its time and waits for all answers.
async fn send_all(
    client: &Client,
    gateway: &Arc<Gateway>,
    arrivals: &[Arrival],
    speed: f64,
    name: &str,
) -> Vec<Sample> {
    let bar = ProgressBar::new(arrivals.len() as u64);
    let template = "{msg:<14} [{bar:30}] {pos}/{len} answered, {eta} left";
    bar.set_style(ProgressStyle::with_template(template).expect("a fixed template").progress_chars("=> "));
    bar.set_message(name.to_owned());
    let mut running = JoinSet::new();
    let mut samples = Vec::with_capacity(arrivals.len());
    let start = Instant::now();
    let url = gateway.url("/v1/completions");
    for arrival in arrivals {
        // Made before its time comes, so that making it delays nobody.
        let body = arrival.body();
        let due = start + Duration::from_secs_f64(arrival.timestamp / 1e3 / speed);
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
        late: late.as_secs_f64() * speed,
        // A client that sends late would otherwise flatter a slow pool.
        ttft: (late + answer.first).as_secs_f64() * speed,
        usage: answer.usage.unwrap_or_default(),
        predicted: record.map(|record| record.predicted),
        endpoint: gateway.address_of(&answer.endpoint),
        failure,
    }
}
