//! `cargo xtask replay`: a slice of a real trace through the gateway, once per policy, one row each.
//!
//! Arrivals keep the trace's times (an open loop: a slow pool does not slow the clients down), divided by `--speed`.
//! The engines run their timing model at the same speed, so every time printed is a simulated one: measured time
//! multiplied by the speed. What the gateway and this client cost is in it, and weighs `speed` times too much; compare
//! rows with each other, and lower the speed when the difference matters.

pub(crate) mod agree;
mod policy;
mod session;
mod statistics;
mod trace;

use anyhow::{Result, bail};
use clap::Args;

use crate::client::Client;
use crate::pointsman;
use crate::report::{Tally, check};
use crate::workspace;

use policy::Policy;
use session::Stage;
use trace::Trace;

/// What to replay, how fast, and with which policies.
#[derive(Args)]
pub(crate) struct Options {
    /// Which trace
    #[arg(long, value_enum, default_value = "conversation")]
    trace: Trace,
    /// How many requests from its beginning
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// How many times faster than real time
    #[arg(long, default_value_t = 10.0, value_parser = positive)]
    speed: f64,
    /// Which policies, in this order
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["serve", "go", "random"])]
    policies: Vec<Policy>,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed >= 0.1 => Ok(speed),
        _ => Err("a number of at least 0.1".into()),
    }
}

impl Options {
    /// A run of a few seconds that shows that the job still works; its figures mean nothing.
    pub(crate) fn smoke() -> Self {
        Self { trace: Trace::Conversation, limit: 40, speed: 20.0, policies: vec![Policy::Serve] }
    }
}

/// Replays the slice once per policy and prints a row as soon as it is there, so that an interrupt keeps the rest.
pub(crate) async fn run(options: &Options) -> Result<Tally> {
    let binary = pointsman::build()?;
    let folder = workspace::scratch("replay")?;
    let arrivals = trace::read(&options.trace.path(), usize::try_from(options.limit)?)?;
    let Some(last) = arrivals.last() else { bail!("the trace is empty") };
    let prompt_tokens: u64 = arrivals.iter().map(|arrival| arrival.input_length).sum();
    println!(
        "{} requests of {:?}, {:.0} simulated seconds, {:.1} M prompt tokens, speed {}; logs: {}",
        arrivals.len(),
        options.trace,
        last.timestamp / 1e3,
        prompt_tokens as f64 / 1e6,
        options.speed,
        folder.display()
    );
    println!("{}", statistics::HEADER);
    let client = Client::new();
    // 8B parameters on one H100: 27,280 blocks of 16 tokens fit beside the weights.
    let flags = [
        ["--profile", "8b-h100"],
        ["--max-num-seqs", "256"],
        ["--kv-cache-size", "27280"],
        ["--block-size", "16"],
        ["--max-model-len", "262144"],
    ];
    let stage = Stage { binary: &binary, folder: &folder, engines: 8, flags: &flags, speed: options.speed };
    let mut tally = Tally::default();
    let mut unanswered = Vec::new();
    for policy in &options.policies {
        let summary = stage.play(&client, policy.name(), *policy, &arrivals).await?;
        println!("{summary}");
        unanswered.push((policy.name(), summary.failures));
    }
    for (name, failures) in unanswered {
        let what =
            format!("{name}: every request was answered completely {}", failures.first().map_or("", String::as_str));
        check(&mut tally, failures.is_empty(), what);
    }
    Ok(tally)
}
