//! What the console costs: the same picker under the same load without an admin listener, with one that nobody looks at, and with somebody who does.
//!
//! Pickers have a processor to themselves, and are loaded in turns; load, engines and the browser share the other one, which the browser's figures suffer from.

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
use super::measure::Counters;
use super::script::{Reply, Script};
use super::stream::Connection;
use super::subject::{Bench, Server, Subject};
use crate::process::{Process, free_port};
use crate::report::Tally;

const EXAMPLES: &str = "Examples:
  cargo xtask bench console                five rounds (some four minutes)
  cargo xtask bench console --quick        once, briefly: does it work at all?";

/// How to measure.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Rounds; figures are medians, of differences those within a turn
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Seconds without load, turns of a second each with it, and seconds of the page
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
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

/// Who is compared, and what each may cost more than the first, in cores.
const COMPARED: [(Viewer, f64); 3] = [(Viewer::Impossible, 0.0), (Viewer::Nobody, 0.02), (Viewer::Stream, 0.05)];

/// How long the load stays with one picker before the next has its turn: others on the machine then disturb all alike.
const TURN: Duration = Duration::from_secs(1);

/// For a page to be open, or to tell what it saw.
const PATIENCE: Duration = Duration::from_secs(30);

/// What the page asks the stream for.
const STREAM: &str = "GET /api/stream?rate=40 HTTP/1.1\r\nhost: localhost\r\n\r\n";

/// Measures and prints.
pub(super) async fn run(mut bench: Bench, options: &Options) -> Result<Tally> {
    let (rounds, seconds) = if options.quick { (1, 3) } else { (options.rounds, options.seconds) };
    let mut tally = Tally::default();
    let (mut idle, mut loaded, mut pages) = (<[Vec<f64>; 3]>::default(), <[Vec<f64>; 3]>::default(), Vec::new());
    for round in 0..rounds {
        let mut watched = Vec::new();
        for (viewer, _) in COMPARED {
            watched.push(Watched::start(&mut bench, options, viewer).await.with_context(|| viewer.to_string())?);
        }
        let before = watched.iter().map(|w| Counters::read(&bench, &w.subject)).collect::<Result<Vec<_>>>()?;
        tokio::time::sleep(TURN * seconds).await;
        for (at, before) in before.iter().enumerate() {
            idle[at].push(before.since(&bench, &watched[at].subject)?.cores());
        }
        for _ in 0..seconds {
            for (at, watched) in watched.iter_mut().enumerate() {
                let (cores, faults) = watched.loaded(&bench, options.rate, TURN).await?;
                tally += Tally::one(faults == 0);
                loaded[at].push(cores);
            }
        }
        drop(watched);
        let mut seen = Watched::start(&mut bench, options, Viewer::Page).await.context("one page")?;
        let page = Page::open(&bench.folder, seen.admin, &options.view, TURN * seconds).await?;
        let (_, faults) = seen.loaded(&bench, options.rate, TURN * seconds).await?;
        tally += Tally::one(faults == 0);
        pages.push(page.saw().await?);
        eprintln!("round {round}: {}", pages[pages.len() - 1]);
    }
    println!("| requests/s | viewer | cores | more than without | aim |");
    println!("| ---: | --- | ---: | ---: | --- |");
    print(0, &idle);
    print(options.rate, &loaded);
    for key in FIGURES {
        let all = pages.iter().filter_map(|page| page[key].as_f64()).collect();
        println!("page, {key}: {}", median(all));
    }
    Ok(tally)
}

/// What a page tells of itself.
const FIGURES: [&str; 9] = [
    "frames_per_second",
    "gap_p50_ms",
    "gap_p99_ms",
    "main_thread_ms_per_frame",
    "script_ms_per_frame",
    "style_ms_per_frame",
    "layout_ms_per_frame",
    "first_paint_ms",
    "gzipped_bytes",
];

/// Medians, and of the differences to the first those of the same turn.
fn print(rate: u32, cores: &[Vec<f64>; 3]) {
    for ((viewer, aim), found) in COMPARED.iter().zip(cores) {
        let middle = median(found.clone());
        if *viewer == Viewer::Impossible {
            println!("| {rate} | {viewer} | {middle:.4} | | |");
            continue;
        }
        let more = median(found.iter().zip(&cores[0]).map(|(with, without)| with - without).collect());
        let missed = if more < *aim { "" } else { ", **missed**" };
        println!("| {rate} | {viewer} | {middle:.4} | {more:+.4} | < {aim:.2}{missed} |");
    }
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of.get(of.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A picker, and whoever looks at it.
struct Watched {
    subject: Subject,
    load: Load,
    admin: SocketAddr,
    reader: Option<tokio::task::JoinHandle<Result<()>>>,
}

impl Watched {
    /// Starts it and warms it up.
    async fn start(bench: &mut Bench, options: &Options, viewer: Viewer) -> Result<Self> {
        let admin = free_port()?;
        let listen = if viewer == Viewer::Impossible { "off".to_owned() } else { admin.to_string() };
        bench.epp_flags = vec!["--admin-listen".to_owned(), listen];
        let subject = Subject::start(bench, Server::Epp, options.engines).await?;
        let mut connections = Vec::new();
        for _ in 0..4 {
            connections.push(Connection::open(subject.address).await?);
        }
        let scripts = (0..512).map(|number| Script::chat(1_024, number, Reply::json())).collect();
        let load = Load { connections, scripts: Rc::new(scripts), next: Rc::new(Cell::new(1)) };
        load.open(options.rate, TURN).await?;
        let reader = (viewer == Viewer::Stream).then(|| tokio::spawn(read(admin)));
        Ok(Self { subject, load, admin, reader })
    }

    /// The cores it uses under load for so long, and how many requests failed.
    async fn loaded(&mut self, bench: &Bench, rate: u32, time: Duration) -> Result<(f64, u64)> {
        let counters = Counters::read(bench, &self.subject)?;
        let measured = self.load.open(rate, time).await?;
        let used = counters.since(bench, &self.subject)?;
        self.subject.must_be_alive()?;
        if self.reader.as_ref().is_some_and(tokio::task::JoinHandle::is_finished) {
            bail!("the stream ended early");
        }
        Ok((used.cores(), measured.faults.count()))
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(reader) = &self.reader {
            reader.abort();
        }
    }
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
