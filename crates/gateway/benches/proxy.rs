//! What routing costs: the gateway against a reverse proxy that does nothing, in one run.
//!
//! Both stand between the same raw client and the same raw engine on loopback, each on one thread of its own, whose CPU time the kernel tells. They take
//! short turns, so that a busy machine slows both. The do-nothing proxy is hyper's server and hyper-util's pooled client, bodies streamed through.
//!
//! Run with `cargo bench -p pointsman-gateway --bench proxy` (Linux). Prints requests per second, CPU per request, and the ratios that
//! `docs/performance.md` quotes.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use pointsman_config::Faults;
use pointsman_core::EndpointName;
use pointsman_fleet::EndpointMeta;
use pointsman_gateway::{GatewayOptions, serve};
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use pointsman_router::{Pool, PoolOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The allocator that the binary uses, for both.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Client connections at the same time.
const CONNECTIONS: usize = 16;
/// Length of one turn.
const TURN: Duration = Duration::from_millis(250);
/// Turns of each proxy.
const TURNS: usize = 21;
/// Streams at the same time, chunks in each, and time between chunks.
const STREAMS: usize = 12;
const CHUNKS: usize = 10_000;
const GAP: Duration = Duration::from_millis(1);

const PLAIN: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 215\r\n\r\n";
const EVENT: &str = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"finish_reason\":null}]}\n\n";

/// A thread with a runtime of its own. Gives its kernel id, for [`cpu`].
fn on_thread<F: Future<Output = ()> + 'static>(start: impl FnOnce() -> F + Send + 'static) -> String {
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let id = std::fs::read_link("/proc/thread-self").unwrap();
        tell.send(id.file_name().unwrap().to_string_lossy().into_owned()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, start());
    });
    told.recv().unwrap()
}

/// CPU time of a thread so far.
fn cpu(thread: &str) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

fn listener() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

/// Reads one message with a length; tells whether it asks for a stream.
async fn read_message(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Option<bool> {
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
        if let Some(end) = buffer.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = std::str::from_utf8(&buffer[..end]).unwrap().to_ascii_lowercase();
            let length =
                head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |v| v.parse().unwrap());
            while buffer.len() < end + 4 + length {
                if stream.read_buf(buffer).await.ok()? == 0 {
                    return None;
                }
            }
            return Some(buffer[end + 4..].starts_with(b"{\"stream\":true"));
        }
    }
}

async fn engine(listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).unwrap();
    let mut plain = PLAIN.as_bytes().to_vec();
    plain.extend(
        format!("{{\"usage\":{{\"prompt_tokens\":9,\"completion_tokens\":1}},\"pad\":\"{}\"}}", "x".repeat(155))
            .bytes(),
    );
    let plain = Arc::new(plain);
    assert!(plain.ends_with(b"\"}") && plain.len() == PLAIN.len() + 215, "{}", plain.len() - PLAIN.len());
    let event = Arc::new(format!("{:x}\r\n{EVENT}\r\n", EVENT.len()).into_bytes());
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (plain, event) = (Arc::clone(&plain), Arc::clone(&event));
        tokio::task::spawn_local(async move {
            let mut buffer = Vec::with_capacity(1 << 20);
            while let Some(stream_wanted) = read_message(&mut stream, &mut buffer).await {
                if !stream_wanted {
                    stream.write_all(&plain).await.unwrap();
                    continue;
                }
                let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
                stream.write_all(head.as_bytes()).await.unwrap();
                let mut ticks = tokio::time::interval(GAP);
                for _ in 0..CHUNKS {
                    ticks.tick().await;
                    stream.write_all(&event).await.unwrap();
                }
                stream.write_all(b"0\r\n\r\n").await.unwrap();
            }
        });
    }
}

async fn gateway(listener: std::net::TcpListener, engine: SocketAddr) {
    let options = PoolOptions { stale_after: Duration::ZERO, ..PoolOptions::default() };
    let states = Arc::clone(&options.states);
    let compile_options = CompileOptions { allow_experimental: false, default: DefaultProfile::Serve, states };
    let pool = Pool::new(options, compile(b"", &compile_options, &mut Faults::new()).unwrap());
    for i in 0..6 {
        let name = EndpointName::new("default", format!("e{i}"));
        // Six names for one engine, so that there is something to choose between.
        pool.fleet.upsert(EndpointMeta::new(name, engine.ip().to_string(), engine.port()));
    }
    let listener = TcpListener::from_std(listener).unwrap();
    serve(listener, pool, GatewayOptions::default(), std::future::pending()).await.unwrap();
}

async fn nothing(listener: std::net::TcpListener, engine: SocketAddr) {
    let listener = TcpListener::from_std(listener).unwrap();
    let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build_http();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let client = client.clone();
        tokio::spawn(async move {
            let service = service_fn(|mut request: Request<Incoming>| {
                let path = request.uri().path_and_query().unwrap().clone();
                let uri = Uri::builder().scheme("http").authority(engine.to_string()).path_and_query(path);
                *request.uri_mut() = uri.build().unwrap();
                client.request(request)
            });
            let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Sends the same request over and over on some connections for one turn. Gives the number of answers.
fn turn(client: &tokio::runtime::Runtime, proxy: SocketAddr, request: &Arc<Vec<u8>>) -> u64 {
    let answers = Arc::new(AtomicU64::new(0));
    let end = Instant::now() + TURN;
    client.block_on(async {
        let all = (0..CONNECTIONS).map(|_| {
            let (request, answers) = (Arc::clone(request), Arc::clone(&answers));
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(proxy).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = Vec::with_capacity(4096);
                while Instant::now() < end {
                    stream.write_all(&request).await.unwrap();
                    read_message(&mut stream, &mut buffer).await.expect("an answer");
                    assert!(buffer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&buffer));
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            })
        });
        for one in all.collect::<Vec<_>>() {
            one.await.unwrap();
        }
    });
    answers.load(Ordering::Relaxed)
}

/// Reads some long streams to their ends at the same time. Gives the bytes of one.
async fn streams(proxy: SocketAddr) -> usize {
    let request = Arc::new(request(1_000, true));
    let all = (0..STREAMS).map(|_| {
        let request = Arc::clone(&request);
        tokio::spawn(async move {
            let mut stream = TcpStream::connect(proxy).await.unwrap();
            stream.write_all(&request).await.unwrap();
            let (mut total, mut buffer) = (0, Vec::with_capacity(1 << 16));
            loop {
                if buffer.len() > 1 << 15 {
                    buffer.drain(..buffer.len() - 16);
                }
                let n = stream.read_buf(&mut buffer).await.unwrap();
                total += n;
                assert!(n > 0, "the stream ended early");
                if buffer.ends_with(b"\r\n0\r\n\r\n") {
                    return total;
                }
            }
        })
    });
    let mut total = 0;
    for one in all.collect::<Vec<_>>() {
        total = one.await.unwrap();
    }
    total
}

/// A chat request of about `size` bytes.
fn request(size: usize, stream: bool) -> Vec<u8> {
    let words = "The quick brown fox jumps over the lazy dog and finds nothing there. ";
    let text: String = words.chars().cycle().take(size.saturating_sub(90)).collect();
    let body = format!(r#"{{"stream":{stream},"model":"m","messages":[{{"role":"user","content":"{text}"}}]}}"#);
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\nuser-agent: bench\r\naccept: */*\r\n";
    format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if std::env::args().any(|a| a == "--test") {
        return;
    }
    let (to_engine, to_gateway, to_nothing) = (listener(), listener(), listener());
    let engine_at = to_engine.local_addr().unwrap();
    let proxies = [("do-nothing", to_nothing.local_addr().unwrap()), ("gateway", to_gateway.local_addr().unwrap())];
    on_thread(move || engine(to_engine));
    let threads =
        [on_thread(move || nothing(to_nothing, engine_at)), on_thread(move || gateway(to_gateway, engine_at))];
    let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    for size in [1_000, 220_000] {
        let request = Arc::new(request(size, false));
        // Requests per second and CPU seconds per request of each turn.
        let mut all: [Vec<(f64, f64)>; 2] = Default::default();
        for round in 0..=TURNS {
            for (at, (_, proxy)) in proxies.iter().enumerate() {
                let before = cpu(&threads[at]);
                let answers = turn(&client, *proxy, &request) as f64;
                let used = cpu(&threads[at]) - before;
                // The first round only warms up.
                if round > 0 {
                    all[at].push((answers / TURN.as_secs_f64(), used.as_secs_f64() / answers));
                }
            }
        }
        for ((name, _), all) in proxies.iter().zip(&all) {
            let (rate, each) = (median(all.iter().map(|t| t.0)), median(all.iter().map(|t| t.1 * 1e6)));
            println!("{size:>7} B  {name:<11} {rate:>9.0} requests/s {each:>8.1} us CPU/request");
        }
        // Neighbouring turns see the same neighbours on the machine, so their ratio is steadier than that of the medians.
        let pairs = || all[1].iter().zip(&all[0]);
        let wall = 100.0 * median(pairs().map(|(gateway, nothing)| gateway.0 / nothing.0));
        let core = 100.0 * median(pairs().map(|(gateway, nothing)| nothing.1 / gateway.1));
        println!(
            "{size:>7} B  gateway does {wall:.0} % of the requests/s, {core:.0} % of those per CPU second (wanted: >= 60 %)"
        );
    }
    // Both at the same time, for the same reason.
    let before = [0, 1].map(|at| cpu(&threads[at]));
    let start = Instant::now();
    let bytes = client.block_on(async { tokio::join!(streams(proxies[0].1), streams(proxies[1].1)) });
    let used = [0, 1].map(|at| (cpu(&threads[at]) - before[at]).as_secs_f64());
    println!("    SSE  {STREAMS} x {CHUNKS} chunks, {bytes:?} bytes each, in {:.1} s", start.elapsed().as_secs_f64());
    for ((name, _), used) in proxies.iter().zip(used) {
        println!("    SSE  {name:<11} {used:.2} s CPU, {:.2} us/chunk", used * 1e6 / (STREAMS * CHUNKS) as f64);
    }
    println!("    SSE  gateway uses {:.2} x the CPU (wanted: <= 1.5)", used[1] / used[0]);
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
