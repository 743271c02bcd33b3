//! What the console costs: the same picker under the same load without an admin listener, with one that nobody looks at, and with somebody who does.
//!
//! The picker has a processor of its own; load, engines and the browser share the other one, which the browser's figures suffer from.

use std::cell::Cell;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::load::Load;
use super::measure::{Counters, Used};
use super::script::{Reply, Script};
use super::stream::Connection;
use super::subject::{Bench, Server, Subject};
use crate::process::{Process, free_port};
use crate::report::Tally;

const EXAMPLES: &str = "Examples:
  cargo xtask bench console                five rounds (some six minutes)
  cargo xtask bench console --quick        once, briefly: does it work at all?";

/// How to measure.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Rounds; figures are the medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Requests per second
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rate: u32,
    /// Engines
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=500))]
    engines: u32,
    /// The view that the browser has open
    #[arg(long, default_value = "pipeline", value_name = "VIEW")]
    view: String,
    /// One round of three seconds each
    #[arg(long)]
    quick: bool,
}

/// Who looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Viewer {
    /// Nobody can: there is no admin listener.
    Impossible,
    Nobody,
    /// A program that reads the stream as the page does.
    Stream,
    /// The page in Chromium.
    Page,
}

impl fmt::Display for Viewer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Impossible => "no admin listener",
            Self::Nobody => "nobody looks",
            Self::Stream => "one stream",
            Self::Page => "one page",
        })
    }
}

/// What is measured: under load or not, and what the viewer may cost, in cores.
const CASES: [(bool, Viewer, f64); 6] = [
    (false, Viewer::Impossible, 0.0),
    (false, Viewer::Nobody, 0.02),
    (true, Viewer::Impossible, 0.0),
    (true, Viewer::Nobody, 0.02),
    (true, Viewer::Stream, 0.05),
    (true, Viewer::Page, 0.05),
];

/// For a page to be open, or to tell what it saw.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the page asks the stream for.
const STREAM: &str = "GET /api/stream?rate=40 HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Measures and prints.
pub(super) async fn run(mut bench: Bench, options: &Options) -> Result<Tally> {
    let (rounds, seconds) = if options.quick { (1, 3) } else { (options.rounds, options.seconds) };
    let time = Duration::from_secs(seconds);
    let scripts = Rc::new((0..512).map(|number| Script::chat(1_024, number, Reply::json())).collect::<Vec<_>>());
    let mut cores: [Vec<f64>; CASES.len()] = Default::default();
    let mut pages = Vec::new();
    let mut tally = Tally::default();
    for round in 0..rounds {
        for (at, (loaded, viewer, _)) in CASES.into_iter().enumerate() {
            let rate = if loaded { options.rate } else { 0 };
            let found = measure(&mut bench, options, &scripts, (rate, time), viewer).await;
            let (used, page, faults) = found.with_context(|| format!("{rate} requests/s, {viewer}"))?;
            eprintln!(
                "round {round}  {rate:>5} requests/s  {viewer:<18} {:.4} cores, waited {:.1} %, {faults} faults",
                used.cores(),
                100.0 * used.waited(),
            );
            tally += Tally::one(faults == 0);
            cores[at].push(used.cores());
            pages.extend(page);
        }
    }
    print(options, &mut cores);
    for page in &pages {
        println!("page: {page}");
    }
    Ok(tally)
}

fn print(options: &Options, cores: &mut [Vec<f64>]) {
    println!("| requests/s | viewer | cores | spread | more than without | aim |");
    println!("| ---: | --- | ---: | ---: | ---: | --- |");
    let mut without = 0.0;
    for ((loaded, viewer, aim), found) in CASES.iter().zip(cores) {
        found.sort_by(f64::total_cmp);
        let median = found[found.len() / 2];
        let spread = found[found.len() - 1] - found[0];
        let rate = if *loaded { options.rate } else { 0 };
        print!("| {rate} | {viewer} | {median:.4} | {spread:.4} |");
        if *viewer == Viewer::Impossible {
            without = median;
            println!(" | |");
        } else {
            let more = median - without;
            println!(" {more:+.4} | < {aim:.2}{} |", if more < *aim { "" } else { ", **missed**" });
        }
    }
}

/// One picker, looked at or not; what it used, what the page saw, and how many requests failed.
async fn measure(
    bench: &mut Bench,
    options: &Options,
    scripts: &Rc<Vec<Script>>,
    (rate, time): (u32, Duration),
    viewer: Viewer,
) -> Result<(Used, Option<Value>, u64)> {
    let admin = free_port()?;
    let listen = if viewer == Viewer::Impossible { "off".to_owned() } else { admin.to_string() };
    bench.epp_flags = vec!["--admin-listen".to_owned(), listen];
    let mut subject = Subject::start(bench, Server::Epp, options.engines).await?;
    let mut connections = Vec::new();
    for _ in 0..4 {
        connections.push(Connection::open(subject.address).await?);
    }
    let load = Load { connections, scripts: Rc::clone(scripts), next: Rc::new(Cell::new(1)) };
    if rate > 0 {
        load.open(rate, Duration::from_secs(1)).await?;
    }
    let reader = match viewer {
        Viewer::Stream => Some(tokio::spawn(read(admin))),
        _ => None,
    };
    let page =
        if viewer == Viewer::Page { Some(Page::open(&bench.folder, admin, &options.view, time).await?) } else { None };
    let counters = Counters::read(bench, &subject)?;
    let faults = if rate > 0 {
        let measured = load.open(rate, time).await?;
        measured.faults.count()
    } else {
        tokio::time::sleep(time).await;
        0
    };
    let used = counters.since(bench, &subject)?;
    subject.must_be_alive()?;
    let saw = match page {
        Some(page) => Some(page.saw().await?),
        None => None,
    };
    if let Some(reader) = reader {
        if reader.is_finished() {
            bail!("the stream ended early");
        }
        reader.abort();
    }
    Ok((used, saw, faults))
}

/// Reads the stream and drops what it says.
async fn read(admin: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(admin).await?;
    stream.write_all(STREAM.as_bytes()).await?;
    let mut buffer = vec![0; 64 << 10];
    while stream.read(&mut buffer).await? > 0 {}
    Ok(())
}

/// The console in Chromium.
struct Page(Process);

impl Page {
    /// Opens it and waits until it is live; it then counts its frames for so long.
    async fn open(folder: &Path, admin: SocketAddr, view: &str, time: Duration) -> Result<Self> {
        let mut node = crate::console::script("cost.mjs")?;
        node.args([&format!("http://{admin}/"), view, &time.as_millis().to_string()]);
        let _ = std::fs::remove_file(folder.join("page.log"));
        let mut page = Self(Process::start("page", folder, &mut node)?);
        page.says("READY").await?;
        Ok(page)
    }

    /// What it saw.
    async fn saw(mut self) -> Result<Value> {
        serde_json::from_str(&self.says("COST ").await?).context("the page's figures are no JSON")
    }

    /// The rest of the first line that begins so.
    async fn says(&mut self, start: &str) -> Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::read_to_string(self.0.log()).unwrap_or_default();
            if let Some(rest) = log.lines().find_map(|line| line.strip_prefix(start)) {
                return Ok(rest.to_owned());
            }
            self.0.must_be_alive()?;
            if Instant::now() > deadline {
                bail!("the page did not say {start:?} within {PATIENCE:?}; see {}", self.0.log().display());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
