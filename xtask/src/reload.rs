//! `cargo xtask reload`: configurations change again and again under load; nothing may fail, and nothing learned may be lost.
//!
//! Good documents, changed ones and broken ones take turns, each put in the file's place and told by SIGHUP. Every request must end in a complete answer,
//! every document must be taken or refused as it deserves, a prompt from before the first change must still be found at the end, and memory
//! must stay where it was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::client::Client;
use crate::completion::{Answer, End, complete};
use crate::pointsman::{self, Engine, Gateway};
use crate::process::free_port;
use crate::report::{Tally, check};
use crate::workspace;

/// How hard, and how often.
#[derive(Args)]
pub(crate) struct Options {
    /// Requests per second, half of them streamed
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=5_000))]
    rate: u32,
    /// Documents that are put in the file's place
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(4..=10_000))]
    times: u32,
}

impl Options {
    /// What continuous integration runs.
    pub(crate) fn standard() -> Self {
        Self { rate: 200, times: 60 }
    }
}

const ENGINES: usize = 3;
const MODEL: &str = "demo";

/// A request takes a quarter of a second here; one without an end after this long hangs.
const DEADLINE: Duration = Duration::from_secs(15);

/// A document must be taken or refused within this time.
const TAKEN_WITHIN: Duration = Duration::from_secs(5);

/// Pause between two documents.
const PAUSE: Duration = Duration::from_millis(100);

/// Memory at the end may exceed that after the first quarter by this share, and by this many MiB.
const GROWTH: (f64, f64) = (1.10, 4.0);

/// A document, and what has to become of it.
struct Turn {
    document: String,
    result: &'static str,
}

/// Document number `n`: changed, the same in other words, broken in several ways.
fn turn(n: u32) -> Turn {
    let good = |weight: u32, capacity: u32, interval: &str| {
        format!(
            "plugins:\n\
             - type: prefix-cache-scorer\n\
             - type: queue-scorer\n\
             - type: active-request-scorer\n\
             - type: approx-prefix-cache-producer\n  parameters: {{lruCapacityPerServer: {capacity}}}\n\
             - type: metrics-data-source\n  parameters: {{interval: {interval}}}\n\
             schedulingProfiles:\n- name: default\n  plugins:\n  \
             - {{pluginRef: prefix-cache-scorer, weight: {weight}}}\n  \
             - {{pluginRef: queue-scorer}}\n  \
             - {{pluginRef: active-request-scorer, weight: 2}}\n"
        )
    };
    let step = n / 5;
    let now = good(2 + step % 7, 31_250 + step % 3, if step % 4 == 3 { "100ms" } else { "50ms" });
    let (document, result) = match n % 5 {
        0 => (now, "applied"),
        1 => (format!("# the same in other words\n{now}"), "unchanged"),
        2 => (now.replace("queue-scorer", "queue-score"), "refused"),
        3 => (format!("{now}  - [\n"), "refused"),
        _ => {
            let discovery = "dataLayer: {discovery: {pluginRef: file-discovery}}\n";
            let file = "- type: file-discovery\n  parameters: {path: /nowhere/endpoints.yaml}\n";
            (format!("{}{discovery}", now.replacen("plugins:\n", &format!("plugins:\n{file}"), 1)), "refused")
        }
    };
    Turn { document, result }
}

/// Runs the load with its changes.
pub(crate) async fn run(options: &Options) -> Result<Tally> {
    let binary = pointsman::build()?;
    let folder = workspace::scratch("reload")?;
    let client = Client::new();
    let mut engines = Vec::new();
    for at in 0..ENGINES {
        let flags = ["--model", MODEL, "--profile", "8b-h100", "--max-num-seqs", "1024"];
        engines.push(Engine::start(&binary, &folder, &format!("engine-{at}"), free_port()?, &flags)?);
    }
    for engine in &mut engines {
        engine.ready(&client).await?;
    }
    let addresses: Vec<_> = engines.iter().map(|engine| engine.address).collect();
    let file = folder.join("config.yaml");
    // The first document of the turns is to be a change.
    std::fs::write(&file, turn(5).document.replace("weight: 2", "weight: 1"))
        .context("cannot write the configuration")?;
    let gateway = Gateway::start(&client, &binary, &folder, "serve", &addresses, Some(&file)).await?;
    println!(
        "{} documents under {} requests/s on {ENGINES} engines; logs: {}",
        options.times,
        options.rate,
        folder.display()
    );

    let known = prompt("known", 0);
    let first = complete(&client, &gateway.url("/v1/completions"), known.clone(), DEADLINE).await;
    let (stop, stopped) = watch::channel(false);
    let (answers, changes) = tokio::join!(load(&client, &gateway, options.rate, stopped), async {
        let changes = change(&client, &gateway, &file, options.times).await;
        let _ = stop.send(true);
        changes
    });
    let changes = changes?;
    let last = complete(&client, &gateway.url("/v1/completions"), known, DEADLINE).await;
    let found = gateway.outcome(&client, &last.decision).await.map_or(0, |outcome| outcome.predicted);

    let mut tally = Tally::default();
    let failed: Vec<&Answer> = answers.iter().filter(|answer| !matches!(answer.end, End::Complete)).collect();
    for answer in failed.iter().take(8) {
        println!("    {:?}", answer.end);
    }
    let (sent, failed) = (answers.len(), failed.len());
    check(&mut tally, failed == 0, format!("no request failed ({failed} of {sent})"));
    let wrong = changes.wrong.len();
    for wrong in changes.wrong.iter().take(8) {
        println!("    {wrong}");
    }
    check(&mut tally, wrong == 0, format!("every document was taken or refused as it should be ({wrong} were not)"));
    check(&mut tally, changes.versions > 1, format!("{} configurations took force", changes.versions));
    check(
        &mut tally,
        matches!(first.end, End::Complete) && found > 0,
        format!("the first prompt is still found: {found} tokens are expected in the cache"),
    );
    let early = changes.early_mib;
    let most = early * GROWTH.0 + GROWTH.1;
    let late = settled(&gateway, most).await?;
    check(
        &mut tally,
        late <= most,
        format!("memory is flat: {early:.1} MiB after the first quarter, {late:.1} MiB at the end"),
    );
    Ok(tally)
}

fn prompt(kind: &str, number: u64) -> Bytes {
    let text = format!("Prompt {kind} {number} asks for the way. ").repeat(20);
    let body = json!({
        "model": MODEL,
        "prompt": text,
        "max_tokens": 8,
        "ignore_eos": true,
        "stream": number.is_multiple_of(2),
    });
    Bytes::from(body.to_string())
}

/// Sends requests at an even rate until told to stop, whatever becomes of the earlier ones.
async fn load(client: &Client, gateway: &Gateway, rate: u32, stopped: watch::Receiver<bool>) -> Vec<Answer> {
    let start = Instant::now();
    let mut running = JoinSet::new();
    let mut answers = Vec::new();
    for number in 0.. {
        tokio::time::sleep_until((start + Duration::from_secs(number) / rate).into()).await;
        if *stopped.borrow() {
            break;
        }
        let (client, url) = (client.clone(), gateway.url("/v1/completions"));
        let body = prompt("number", number % 97);
        running.spawn(async move { complete(&client, &url, body, DEADLINE).await });
        while let Some(done) = running.try_join_next() {
            answers.extend(done.ok());
        }
    }
    answers.extend(running.join_all().await);
    answers
}

/// What the changes did.
struct Changes {
    /// Documents that did not fare as they should.
    wrong: Vec<String>,
    versions: u64,
    early_mib: f64,
}

/// Memory after the load, once what requests held on a busy machine has been given back: as soon as it is at most `most`, else the last figure.
async fn settled(gateway: &Gateway, most: f64) -> Result<f64> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let resident = gateway.resident_mib()?;
        if resident <= most || Instant::now() > deadline {
            return Ok(resident);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

async fn change(client: &Client, gateway: &Gateway, file: &Path, times: u32) -> Result<Changes> {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let next: PathBuf = file.with_extension("next");
    let mut changes = Changes { wrong: Vec::new(), versions: 0, early_mib: 0.0 };
    let mut counted = gateway.reloads(client).await?;
    for n in 0..times {
        let Turn { document, result } = turn(n);
        std::fs::write(&next, document)?;
        std::fs::rename(&next, file)?;
        let told = Command::new("kill").args(["-HUP", &gateway.id().to_string()]).status()?;
        if !told.success() {
            bail!("the gateway cannot be signalled");
        }
        let deadline = Instant::now() + TAKEN_WITHIN;
        let config = loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let now = gateway.reloads(client).await?;
            if now > counted {
                counted = now;
                break gateway.config(client).await?;
            }
            if Instant::now() > deadline {
                break Value::Null;
            }
        };
        let became = config["last_reload"]["result"].as_str().unwrap_or("not taken");
        if became != result {
            changes.wrong.push(format!("document {n} should be {result}, and was {became}: {}", config["last_reload"]));
        }
        changes.versions = config["version"].as_u64().unwrap_or(changes.versions);
        if n == times / 4 {
            changes.early_mib = gateway.resident_mib()?;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(changes)
}
