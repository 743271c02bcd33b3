//! Measurements: one server under one load, and rounds of two servers in turn.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use super::Options;
use super::events;
use super::fetch::EVERY;
use super::load::Load;
use super::machine;
use super::rows::{EVENTS, Figure, Kind, ROWS, Row};
use super::samples::Measured;
use super::script::{Reply, Script};
use super::stream::Connection;
use super::subject::{Bench, Server, Subject};
use super::table::Table;
use crate::report::Tally;

/// How long an idle server is watched before a load, to know what its engines alone cost it.
const IDLE: Duration = Duration::from_millis(1_500);

/// How long a load runs before it is measured.
const WARM_UP: Duration = Duration::from_secs(1);

/// What one measurement found.
#[derive(Default)]
pub(super) struct Found {
    /// Figures in the order of the table.
    pub(super) figures: Vec<(Figure, f64)>,
    /// Requests or events that went wrong.
    pub(super) faults: u64,
    /// Share of the time during which a thread of the server was ready to run and had no processor.
    pub(super) waited: f64,
}

/// Runs what the options ask for.
pub(super) async fn run(bench: &Bench, options: &Options) -> Result<Tally> {
    let rows: Vec<&Row> =
        ROWS.iter().filter(|row| options.only.is_empty() || options.only.iter().any(|name| name == row.name)).collect();
    eprintln!(
        "server on processor {}, load and engines on {}; logs: {}",
        bench.cores.server,
        bench.cores.load,
        bench.folder.display()
    );
    match options.server {
        Some(server) => single(bench, options, server, &rows).await,
        None => compare(bench, options, &rows).await,
    }
}

/// Two servers in turn; each round begins with the other one.
async fn compare(bench: &Bench, options: &Options, rows: &[&'static Row]) -> Result<Tally> {
    let mut table = Table::new(options.subject.name());
    let mut tally = Tally::default();
    for row in rows {
        let scripts = Rc::new(scripts(row.kind));
        for round in 0..options.rounds() {
            let mut servers = [Server::Echo, options.subject];
            servers.rotate_left(round as usize % 2);
            for server in servers {
                let found = measure(bench, options, server, row, &scripts).await;
                let found = found.with_context(|| format!("{}: {}", row.title, server.name()))?;
                tally += Tally::one(found.faults == 0);
                table.push(row, server == Server::Echo, found);
            }
        }
    }
    println!("{table}");
    Ok(tally)
}

/// One server, kept loaded for whoever looks at it with other tools.
async fn single(bench: &Bench, options: &Options, server: Server, rows: &[&'static Row]) -> Result<Tally> {
    let mut tally = Tally::default();
    for row in rows {
        let scripts = Rc::new(scripts(row.kind));
        let found = measure(bench, options, server, row, &scripts).await?;
        println!("{}", row.title);
        for (figure, value) in &found.figures {
            println!("  {:<32} {value:.4}", figure.title());
        }
        tally += Tally::one(found.faults == 0);
    }
    Ok(tally)
}

/// Starts a server, loads it, stops it.
async fn measure(
    bench: &Bench,
    options: &Options,
    server: Server,
    row: &Row,
    scripts: &Rc<Vec<Script>>,
) -> Result<Found> {
    let mut subject = Subject::start(bench, server, row.engines).await?;
    if options.server.is_some() {
        eprintln!("{} runs as process {}", server.name(), subject.id());
    }
    let watched = if matches!(row.kind, Kind::Idle) { options.time() } else { IDLE };
    let mut counters = Counters::read(bench, &subject)?;
    tokio::time::sleep(watched).await;
    let mut idle = counters.since(bench, &subject)?;
    let mut found = Found::default();
    if let Some(mut measured) = loaded(options, &subject, row, scripts, &mut counters, bench).await? {
        let used = counters.since(bench, &subject)?;
        figures(&mut found, row, &mut measured, &used, &idle);
        report(server, row, &found, &measured, &used);
        idle = used;
    } else {
        found.figures.push((Figure::Cores, idle.cores()));
        report(server, row, &found, &Measured::default(), &idle);
    }
    subject.must_be_alive()?;
    found.waited = idle.waited();
    found.figures.push((Figure::Pages, idle.pages as f64 / due(row, idle.wall)));
    found.figures.push((Figure::Memory, machine::peak_memory(subject.id())?));
    Ok(found)
}

/// Warms up and loads; `None` when there is nothing to send. `counters` are read in between.
async fn loaded(
    options: &Options,
    subject: &Subject,
    row: &Row,
    scripts: &Rc<Vec<Script>>,
    counters: &mut Counters,
    bench: &Bench,
) -> Result<Option<Measured>> {
    if matches!(row.kind, Kind::Idle) {
        return Ok(None);
    }
    let mut connections = Vec::new();
    for _ in 0..options.connections {
        connections.push(Connection::open(subject.address).await?);
    }
    let load = Load { connections, scripts: Rc::clone(scripts), next: Rc::new(Cell::new(1)) };
    let time = row.kind.time(options.time());
    let measured = match row.kind {
        Kind::Closed { concurrency, .. } => {
            load.closed(concurrency, WARM_UP).await;
            *counters = Counters::read(bench, subject)?;
            load.closed(concurrency, time).await
        }
        Kind::Open { rate, .. } => {
            load.open(rate, WARM_UP).await?;
            *counters = Counters::read(bench, subject)?;
            load.open(rate, time).await?
        }
        Kind::Events { streams, rate } => {
            // Not with the streams themselves: sent at once, they would set the mark of the memory.
            let short = Rc::new(vec![Script::chat(row.kind.size(), 0, Reply::json())]);
            let warm_up = Load { connections: load.connections.clone(), scripts: short, next: Rc::clone(&load.next) };
            warm_up.closed(streams, WARM_UP).await;
            *counters = Counters::read(bench, subject)?;
            let mut measured = events::run(&load, streams, rate).await?;
            // A stream takes as long as its events; longer loads are several of them.
            while measured.wall < time && options.server.is_some() {
                let more = events::run(&load, streams, rate).await?;
                measured.done += more.done;
                measured.wall += more.wall;
            }
            measured
        }
        Kind::Idle => return Ok(None),
    };
    Ok(Some(measured))
}

fn figures(found: &mut Found, row: &Row, measured: &mut Measured, used: &Used, idle: &Used) {
    let millis = |duration: Duration| duration.as_secs_f64() * 1_000.0;
    let each = |time: f64| time / measured.done.max(1) as f64;
    let scraping = idle.cores() * used.wall.as_secs_f64();
    let cpu = used.cpu.as_secs_f64();
    let own = &mut found.figures;
    own.push((Figure::Rate, measured.done as f64 / measured.wall.as_secs_f64()));
    if matches!(row.kind, Kind::Closed { .. }) {
        own.push((Figure::RatePerCore, measured.done as f64 / cpu.max(1e-9)));
    }
    if matches!(row.kind, Kind::Events { .. }) {
        own.push((Figure::CpuPerEvent, each(cpu * 1e6)));
    } else {
        own.push((Figure::Cpu, each(cpu * 1e3)));
        own.push((Figure::CpuWithoutScraping, each((cpu - scraping).max(0.0) * 1e3)));
        own.push((Figure::DecisionP50, millis(measured.decisions.percentile(0.5))));
        own.push((Figure::DecisionP95, millis(measured.decisions.percentile(0.95))));
        own.push((Figure::DecisionP99, millis(measured.decisions.percentile(0.99))));
    }
    own.push((Figure::TotalP99, millis(measured.totals.percentile(0.99))));
    own.push((Figure::Cores, used.cores()));
    found.faults = measured.faults.count();
}

fn report(server: Server, row: &Row, found: &Found, measured: &Measured, used: &Used) {
    let figure = |wanted| found.figures.iter().find(|(figure, _)| *figure == wanted).map_or(0.0, |(_, value)| *value);
    eprintln!(
        "{:<9} {:<16} {:>9.1}/s  {:.3} cores  waited {:.0} %  pages {}/{:.0}  generator {:.0} % busy  faults {}",
        row.name,
        server.name(),
        figure(Figure::Rate),
        used.cores(),
        100.0 * used.waited(),
        used.pages,
        due(row, used.wall),
        100.0 * used.generator.as_secs_f64() / used.wall.as_secs_f64(),
        measured.faults.count(),
    );
    for text in measured.faults.texts() {
        eprintln!("    {text}");
    }
}

/// Pages due in a time.
fn due(row: &Row, wall: Duration) -> f64 {
    f64::from(row.engines) * wall.as_secs_f64() / EVERY.as_secs_f64()
}

/// What a row sends: enough different bodies that no cache of one prompt is measured, few enough to stay in memory.
fn scripts(kind: Kind) -> Vec<Script> {
    let size = kind.size();
    let count = (24_000_000 / size).clamp(4, 512) as u64;
    match kind {
        Kind::Events { .. } => vec![Script::chat(size, 0, Reply::events(EVENTS - 1))],
        _ => (0..count).map(|number| Script::chat(size, number, Reply::json())).collect(),
    }
}

/// Counters at a moment.
pub(super) struct Counters {
    at: Instant,
    cpu: Duration,
    waiting: Duration,
    generator: Duration,
    pages: u64,
}

/// What was used between two moments.
pub(super) struct Used {
    wall: Duration,
    cpu: Duration,
    waiting: Duration,
    generator: Duration,
    pages: u64,
}

impl Counters {
    /// Reads them.
    pub(super) fn read(bench: &Bench, subject: &Subject) -> Result<Self> {
        let generator = machine::processor_time(std::process::id())?;
        let (cpu, waiting) = (subject.processor_time()?, machine::waiting_time(subject.id())?);
        Ok(Self { at: Instant::now(), cpu, waiting, generator, pages: bench.engines.pages() })
    }

    /// What was used since they were read.
    pub(super) fn since(&self, bench: &Bench, subject: &Subject) -> Result<Used> {
        let now = Self::read(bench, subject)?;
        Ok(Used {
            wall: now.at - self.at,
            cpu: now.cpu.saturating_sub(self.cpu),
            waiting: now.waiting.saturating_sub(self.waiting),
            generator: now.generator.saturating_sub(self.generator),
            pages: now.pages - self.pages,
        })
    }
}

impl Used {
    /// Processors, on average.
    pub(super) fn cores(&self) -> f64 {
        self.cpu.as_secs_f64() / self.wall.as_secs_f64()
    }

    /// Share of the time for which a thread was ready and had no processor.
    pub(super) fn waited(&self) -> f64 {
        self.waiting.as_secs_f64() / self.wall.as_secs_f64()
    }
}
