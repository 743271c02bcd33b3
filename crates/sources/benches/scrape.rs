//! What scraping costs, against fetching the same pages and dropping them.
//!
//! A server process plays N engines (one address each) that show a real vLLM page of 68 KB. A client process, whose processor time is measured,
//! fetches every page every 50 ms: once as a plain hyper client that drops what comes, once as [`Sources`] with the default extractor, once with
//! health checks and model lists besides (`all`), once with these on two threads (`all-2`). Printed: processor time per wall time, ratio to the
//! plain client per page made, pages made of those due, memory, pages that came after the next one was due (late).
//!
//! `cargo bench -p pointsman-sources --bench scrape`, optionally with numbers of engines.
#![expect(clippy::print_stdout, reason = "figures go to the terminal")]

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use pointsman_config::Faults;
use pointsman_core::{EndpointName, SystemClock};
use pointsman_fleet::{EndpointMeta, Fleet};
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use pointsman_sources::{ScrapeSource, Sources, SourcesOptions, TlsClient};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const EVERY: Duration = Duration::from_millis(50);
const WARM_UP: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(6);
const ROLE: &str = "SCRAPE_BENCH_ROLE";
const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/fixtures/vllm/metrics/under-load-lora.prom");

fn main() {
    let role = std::env::var(ROLE).unwrap_or_default();
    let role: Vec<&str> = role.split(' ').collect();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    match role[..] {
        ["server"] => runtime().block_on(serve()),
        [mode, engines, port] => {
            let (engines, port) = (engines.parse().expect("a number"), port.parse().expect("a port"));
            match mode {
                "plain" => runtime().block_on(plain(engines, port)),
                _ => sources(mode != "scrape", if mode == "all-2" { 2 } else { 1 }, engines, port),
            }
        }
        _ => compare(),
    }
}

fn compare() {
    let wanted: Vec<u32> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let wanted = if wanted.is_empty() { vec![10, 100, 500] } else { wanted };
    let me = std::env::current_exe().expect("this program");
    let mut server = Command::new(&me).env(ROLE, "server").stdout(Stdio::piped()).spawn().expect("a server");
    let mut port = String::new();
    BufReader::new(server.stdout.take().expect("piped")).read_line(&mut port).expect("its port");
    println!("engines  mode      cpu %  ratio  pages made / due      rss MiB    late dropped failed");
    for engines in wanted {
        let mut base = f64::NAN;
        for mode in ["plain", "scrape", "all", "all-2"] {
            let role = format!("{mode} {engines} {}", port.trim());
            let out = Command::new(&me).env(ROLE, role).output().expect("a client");
            let text = String::from_utf8_lossy(&out.stdout);
            let figures: Vec<f64> = text.split_whitespace().filter_map(|f| f.parse().ok()).collect();
            let [cpu, pages, rss, late, failed, dropped] = figures[..] else {
                panic!("{text}{}", String::from_utf8_lossy(&out.stderr))
            };
            if mode == "plain" {
                base = cpu / pages;
            }
            let due = f64::from(engines) * MEASURED.as_secs_f64() / EVERY.as_secs_f64();
            // Per page made: dropping pages must not look like saving time.
            let ratio = cpu / pages / base;
            println!(
                "{engines:>7}  {mode:<7} {cpu:>7.2}  {ratio:>5.2}  {pages:>8} / {due:<8}  {rss:>7.1}  {late:>6} {dropped:>7} {failed:>6}"
            );
        }
    }
    let _ = server.kill();
    let _ = server.wait();
}

/// Engines at 127.0.1.1, 127.0.1.2 and so on.
fn address(engine: u32) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1 + (engine / 250) as u8, 1 + (engine % 250) as u8)
}

async fn serve() {
    let page = std::fs::read(PAGE).expect("the page");
    let mut answer =
        format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n", page.len()).into_bytes();
    answer.extend_from_slice(&page);
    let answer: Arc<[u8]> = answer.into();
    let listener = TcpListener::bind("0.0.0.0:0").await.expect("a port");
    println!("{}", listener.local_addr().expect("bound").port());
    loop {
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let mut request = [0; 1024];
            let mut have = 0;
            while let Ok(n @ 1..) = stream.read(&mut request[have..]).await {
                have += n;
                if !request[..have].ends_with(b"\r\n\r\n") {
                    continue;
                }
                have = 0;
                let small: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 25\r\n\r\n{\"data\":[{\"id\":\"model\"}]} ";
                let sent = if request.starts_with(b"GET /metrics") { &answer[..] } else { &small[..small.len() - 1] };
                if stream.write_all(sent).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The least that fetches pages: one connection per engine, an interval, frames dropped as they come.
async fn plain(engines: u32, port: u16) {
    let (pages, late) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for engine in 0..engines {
        let (pages, late) = (Arc::clone(&pages), Arc::clone(&late));
        tokio::spawn(async move {
            tokio::time::sleep(EVERY * engine / engines).await;
            let stream = TcpStream::connect((address(engine), port)).await.expect("the server");
            let made = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = made.expect("a connection");
            tokio::spawn(connection);
            let mut interval = tokio::time::interval(EVERY);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            loop {
                let due = interval.tick().await;
                let request = hyper::Request::get("/metrics").header("host", "engine").body(Empty::<Bytes>::new());
                let answer = sender.send_request(request.expect("a request")).await.expect("an answer");
                let mut body = answer.into_body();
                while let Some(frame) = body.frame().await {
                    drop(frame.expect("a piece"));
                }
                pages.fetch_add(1, Ordering::Relaxed);
                late.fetch_add(u64::from(due.elapsed() >= EVERY), Ordering::Relaxed);
            }
        });
    }
    tokio::time::sleep(WARM_UP).await;
    let (cpu, made) = (processor_time(), pages.load(Ordering::Relaxed));
    let late_before = late.load(Ordering::Relaxed);
    tokio::time::sleep(MEASURED).await;
    let late = late.load(Ordering::Relaxed) - late_before;
    report(processor_time() - cpu, pages.load(Ordering::Relaxed) - made, late, (0, 0));
}

fn sources(all: bool, threads: usize, engines: u32, port: u16) {
    let clock = Arc::new(SystemClock::default());
    let fleet = Fleet::new(clock.clone());
    let options = CompileOptions { allow_experimental: false, default: DefaultProfile::Serve, states: Arc::default() };
    let compiled = compile(b"", &options, &mut Faults::new()).expect("the default configuration");
    let scrape = ScrapeSource::compile_all(&compiled.sources).expect("the default source");
    let mut options = SourcesOptions::new(TlsClient::insecure());
    options.threads = threads;
    if !all {
        options.health = None;
        options.models_interval = None;
    }
    let sources = Sources::start(&fleet, scrape, options, clock, Arc::new(())).expect("threads");
    for engine in 0..engines {
        let name = EndpointName::new("default", engine.to_string());
        fleet.upsert(EndpointMeta::new(name, address(engine).to_string(), port));
    }
    std::thread::sleep(WARM_UP);
    let (cpu, before) = (processor_time(), sources.stats());
    std::thread::sleep(MEASURED);
    let (cpu, after) = (processor_time() - cpu, sources.stats());
    let missed = (after.failed_scrapes - before.failed_scrapes, after.dropped_ticks - before.dropped_ticks);
    report(cpu, after.scrapes - before.scrapes, after.late_scrapes - before.late_scrapes, missed);
    let known = fleet.load().endpoints.iter().filter(|e| e.engine.view().known_waiting()).count();
    assert_eq!(known, engines as usize, "every engine's state is known");
}

fn report(cpu: Duration, pages: u64, late: u64, (failed, dropped): (u64, u64)) {
    let percent = 100.0 * cpu.as_secs_f64() / MEASURED.as_secs_f64();
    println!("{percent} {pages} {} {late} {failed} {dropped}", resident());
}

/// Time on a processor of all threads of this process.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux");
    let nanos = tasks.filter_map(|task| {
        let stat = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        stat.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(nanos.sum())
}

/// Resident memory, MiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).expect("a line of it");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).expect("a number") / 1024.0
}
