//! `cargo xtask agree`: does the simulator say what processes do?
//!
//! The same requests go, seed by seed, to simulated engines under a virtual clock (`pointsman race`), and to `pointsman engine` processes behind `pointsman serve`,
//! with the same profile, blocks, noise and policy. The processes live `--speed` times faster than real time. What HTTP, the gateway and this client cost in
//! real time then weighs as many times too much in the live figures, and the metrics, read every 50 ms of real time, are read that much more seldom; the
//! simulator is told the latter. Times to the first token must therefore be long against a few milliseconds times the speed.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;

use super::policy::Policy;
use super::session::Stage;
use super::{positive, trace};
use crate::client::Client;
use crate::pointsman;
use crate::report::{Tally, check};
use crate::workspace;

/// What is played, how often, and how fast.
#[derive(Args)]
pub(crate) struct Options {
    /// Requests, as `pointsman race --workload` takes them
    #[arg(long, default_value = WORKLOAD)]
    workload: String,
    /// Workloads, each with a seed of its own
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Engines
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    engines: u32,
    /// How many times faster than real time
    #[arg(long, default_value_t = 1.5, value_parser = positive)]
    speed: f64,
}

/// Two thirds of each prompt are shared with others, and engines are busy enough that requests wait for each other.
const WORKLOAD: &str = "shared-prefix:groups=24,system=4096,question=2048,output=32,rate=24,requests=700";

/// Share by which live figures may differ from simulated ones.
const WITHIN: f64 = 0.10;

/// Milliseconds of real time between two readings of an engine's metrics: what `serve` does.
const SCRAPE_MS: f64 = 50.0;

/// Runs of the simulator for each workload, which differ in noise and ties.
const RUNS: &str = "10";

const FLEET: [[&str; 2]; 3] = [["--profile", "8b-h100"], ["--block-size", "16"], ["--max-num-seqs", "256"]];
const ENGINE: [[&str; 2]; 3] =
    [["--step-noise", "0.03"], ["--max-model-len", "262144"], ["--max-waiting-queue-length", "1000000"]];

impl Options {
    /// What continuous integration runs.
    pub(crate) fn standard() -> Self {
        Self { workload: WORKLOAD.into(), seeds: 3, engines: 4, speed: 1.5 }
    }
}

/// Figures of one side.
#[derive(Clone, Copy, Default)]
struct Figures {
    mean: f64,
    p95: f64,
    hit: f64,
}

impl Figures {
    fn each(&self) -> [f64; 3] {
        [self.mean, self.p95, self.hit]
    }
}

/// Plays each workload to both and compares.
pub(crate) async fn run(options: &Options) -> Result<Tally> {
    let binary = pointsman::build()?;
    let folder = workspace::scratch("agree")?;
    let (client, speed) = (Client::new(), options.speed);
    println!("{} to {} engines, {speed} times as fast; logs: {}", options.workload, options.engines, folder.display());
    println!("\n{:<6} {:^31} {:^31} {:^29}", "", "TTFT mean", "TTFT p95", "cache hit");
    let (simulated, live, off) = ("simulated", "live", "off");
    println!(
        "{:<6} {simulated:>11} {live:>10} {off:>7}  {simulated:>11} {live:>10} {off:>7}  {simulated:>10} {live:>8} {off:>7}",
        "seed"
    );
    let flags = [FLEET, ENGINE].concat();
    let stage = Stage { binary: &binary, folder: &folder, engines: options.engines as usize, flags: &flags, speed };
    let (mut tally, mut both, mut failures, mut late) = (Tally::default(), [Figures::default(); 2], Vec::new(), 0.0);
    for seed in 1..=options.seeds {
        let file = folder.join(format!("seed-{seed}.jsonl"));
        let out = ask(&binary, &["trace", "make", &options.workload, "--seed", &seed.to_string()])?;
        std::fs::write(&file, out).with_context(|| format!("cannot write {}", file.display()))?;
        let simulated = simulate(&binary, &file, options)?;
        let arrivals = trace::read(&file, usize::MAX)?;
        let live = stage.play(&client, &format!("seed {seed}"), Policy::Serve, &arrivals).await?;
        failures.extend(live.failures);
        late += live.late * 1e3 / f64::from(options.seeds);
        let live = Figures { mean: live.mean, p95: live.p95, hit: live.hit_share };
        println!("{}", row(&seed.to_string(), simulated, live));
        for (sum, one) in both.iter_mut().zip([simulated, live]) {
            let n = f64::from(options.seeds);
            *sum = Figures { mean: sum.mean + one.mean / n, p95: sum.p95 + one.p95 / n, hit: sum.hit + one.hit / n };
        }
    }
    let [simulated, live] = both;
    println!("{}", row("mean", simulated, live));
    println!(
        "  the client was {late:.1} ms late on average: where that is much, the machine was busy and the live times are its"
    );
    let first = failures.first().map_or("", String::as_str);
    check(&mut tally, failures.is_empty(), format!("every request was answered completely {first}"));
    for (what, simulated, live) in [
        ("the mean time to the first token", simulated.mean, live.mean),
        ("the share of cache hits", simulated.hit, live.hit),
    ] {
        let off = live / simulated - 1.0;
        check(&mut tally, off.abs() <= WITHIN, format!("{what} differs by less than 10 % ({:+.1} %)", off * 1e2));
    }
    Ok(tally)
}

/// What the simulator says of a trace.
fn simulate(binary: &Path, file: &Path, options: &Options) -> Result<Figures> {
    let (pods, scrape) = (options.engines.to_string(), format!("{:.0}", SCRAPE_MS * options.speed));
    let file = file.to_str().context("a path in UTF-8")?;
    let own = [["--trace", file], ["--policy", "default"], ["--pods", &pods], ["--scrape", &scrape], ["--seeds", RUNS]];
    let flags = [&own[..], &FLEET].concat();
    let mut args = vec!["race", "--json"];
    args.extend(flags.as_flattened());
    let report: Value = serde_json::from_slice(&ask(binary, &args)?).context("the race's result is no JSON")?;
    let metrics = &report["policies"][0]["metrics"];
    let of = |name: &str| metrics[name]["mean"].as_f64().with_context(|| format!("the race has no {name}"));
    Ok(Figures { mean: of("ttft_mean")?, p95: of("ttft_p95")?, hit: of("hit_ratio")? })
}

/// Runs a command of the binary to its end.
fn ask(binary: &Path, args: &[&str]) -> Result<Vec<u8>> {
    let output =
        Command::new(binary).args(args).output().with_context(|| format!("cannot run {}", binary.display()))?;
    if !output.status.success() {
        bail!("pointsman {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

fn row(name: &str, simulated: Figures, live: Figures) -> String {
    let [mean, p95, hit] = [0, 1, 2].map(|at| {
        let (simulated, live) = (simulated.each()[at], live.each()[at]);
        (simulated, live, (live / simulated - 1.0) * 1e2)
    });
    format!(
        "{name:<6} {:>8.1} ms {:>7.1} ms {:>+5.1} %  {:>8.1} ms {:>7.1} ms {:>+5.1} %  {:>8.1} % {:>6.1} % {:>+5.1} %",
        mean.0 * 1e3,
        mean.1 * 1e3,
        mean.2,
        p95.0 * 1e3,
        p95.1 * 1e3,
        p95.2,
        hit.0 * 1e2,
        hit.1 * 1e2,
        hit.2
    )
}
