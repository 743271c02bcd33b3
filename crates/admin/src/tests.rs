//! The listener over a real socket, in front of a pool made by hand.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use pointsman_core::{Clock, EndpointName, ManualClock, Nanos};
use pointsman_fleet::{Condition, Endpoint, EndpointMeta, Fleet, LoraInfo, Scraped, Snapshot};
use pointsman_scheduling::record::{Decision, DecisionId};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::{Guard, View, serve};

struct Yard {
    clock: Arc<ManualClock>,
    fleet: Fleet,
    decisions: Vec<Arc<Decision>>,
}

impl View for Yard {
    fn plugins(&self) -> Vec<crate::view::PluginState> {
        Vec::new()
    }

    fn decisions(&self, limit: usize, after: Option<DecisionId>) -> Vec<Arc<Decision>> {
        let newest = self.decisions.iter().rev().filter(|d| after.is_none_or(|a| d.id > a));
        newest.take(limit).cloned().collect()
    }
    fn decided(&self) -> u64 {
        self.decisions.len() as u64
    }
    fn decision(&self, id: DecisionId) -> Option<Arc<Decision>> {
        self.decisions.iter().find(|d| d.id == id).cloned()
    }
    fn fleet(&self) -> Arc<Snapshot> {
        self.fleet.snapshot()
    }
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }
    fn cached_blocks(&self, endpoint: &Endpoint) -> Option<u64> {
        (&*endpoint.name().name == "A").then_some(33)
    }
    fn config(&self) -> (u64, Value) {
        (7, json!({"kind": "EndpointPickerConfig"}))
    }
    fn metrics(&self, openmetrics: bool) -> String {
        if openmetrics { "open\n# EOF\n".into() } else { "old\n".into() }
    }
}

fn decision(n: u64, fleet: &Snapshot) -> Arc<Decision> {
    Arc::new(Decision {
        at_unix_ms: 1_764_449_000_000,
        request_id: format!("r{n}").into(),
        transport: "gateway",
        method: "POST".into(),
        path: "/v1/chat/completions".into(),
        model: "demo".into(),
        target_model: "demo".into(),
        prompt_tokens_estimated: 10,
        blocks: (64, 1),
        config_version: 7,
        fleet: Arc::clone(&fleet.directory),
        ..Decision::blank(DecisionId(n))
    })
}

/// Endpoints A (scraped) and B (never scraped, probe failing) in `default`, a second B in `other`.
fn yard() -> Yard {
    let clock = Arc::new(ManualClock::at(Nanos(5_000_000_000)));
    let fleet = Fleet::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let mut a = EndpointMeta::new(EndpointName::new("default", "A"), "10.0.0.1", 8000);
    a.labels = [("role", "decode")].into_iter().collect();
    fleet.upsert(a);
    fleet.upsert(EndpointMeta::new(EndpointName::new("default", "B"), "10.0.0.2", 8000));
    fleet.upsert(EndpointMeta::new(EndpointName::new("other", "B"), "10.0.0.3", 8000));
    let snapshot = fleet.snapshot();
    let told = Scraped {
        waiting: Some(2.0),
        running: Some(1.0),
        kv_usage: Some(0.45),
        lora: Some(LoraInfo::new(2, ["chat-lora".into()], [])),
        ..Scraped::default()
    };
    let a = &snapshot.endpoints[0];
    a.engine.apply(clock.now(), &told);
    a.engine.set_engine("vllm");
    a.load.charge(3, 700);
    snapshot.endpoints[1].health.set(Condition::Probe, Some("connection refused".into()), &*clock);
    clock.advance(Duration::from_millis(120));
    let decisions = (1..=3).map(|n| decision(n, &snapshot)).collect();
    Yard { clock, fleet, decisions }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
    fn message(&self) -> String {
        self.json()["error"]["message"].as_str().expect("a message").to_owned()
    }
}

/// Sends one raw request and reads until the listener closes.
async fn raw(address: std::net::SocketAddr, request: &str) -> Answer {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    let read = stream.read_to_string(&mut text);
    tokio::time::timeout(Duration::from_secs(10), read).await.expect("the listener answers and closes").unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head in {text:?}"));
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
}

async fn started(yard: Yard, guard: Guard) -> (std::net::SocketAddr, Arc<Yard>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, yard) = (listener.local_addr().unwrap(), Arc::new(yard));
    tokio::spawn(serve(listener, Arc::clone(&yard), guard, std::future::pending()));
    (address, yard)
}

async fn ask(address: std::net::SocketAddr, method: &str, target: &str, headers: &str) -> Answer {
    raw(address, &format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")).await
}

#[tokio::test]
async fn decisions_are_listed_newest_first_and_found_by_id_and_as_last() {
    let (address, _) = started(yard(), Guard::default()).await;
    let ids = |answer: &Answer| -> Vec<String> {
        let all = answer.json();
        all["decisions"].as_array().unwrap().iter().map(|d| d["request_id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&ask(address, "GET", "/api/decisions", "").await), ["r3", "r2", "r1"]);
    assert_eq!(ids(&ask(address, "GET", "/api/decisions?limit=1", "").await), ["r3"]);
    let after = format!("/api/decisions?after={}&limit=10", DecisionId(1));
    assert_eq!(ids(&ask(address, "GET", &after, "").await), ["r3", "r2"]);
    assert_eq!(ids(&ask(address, "GET", "/api/decisions?request_id=r%32", "").await), ["r2"]);
    assert_eq!(ids(&ask(address, "GET", "/api/decisions?request_id=r", "").await), [""; 0]);
    assert_eq!(ask(address, "GET", "/api/decisions/last", "").await.json()["request_id"], "r3");
    let two = ask(address, "GET", &format!("/api/decisions/{}", DecisionId(2)), "").await.json();
    assert_eq!((&two["request_id"], &two["transport"]), (&json!("r2"), &json!("gateway")));
    assert_eq!(ask(address, "GET", &format!("/api/decisions/{}", DecisionId(9)), "").await.status, 404);
    for bad in [
        "/api/decisions/nonsense",
        "/api/decisions?limit=0",
        "/api/decisions?limit=1001",
        "/api/decisions?after=x",
        "/api/decisions?request_id=%zz",
        "/api/decisions?x=1",
    ] {
        assert_eq!(ask(address, "GET", bad, "").await.status, 400, "{bad}");
    }
    let none = Yard { decisions: Vec::new(), ..yard() };
    let (address, _) = started(none, Guard::default()).await;
    assert_eq!(ask(address, "GET", "/api/decisions/last", "").await.status, 404);
}

static ENDPOINT_KEYS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    "address name labels ready since reason scrape_age_ms engine running waiting kv_cache_usage lora in_flight cached_blocks"
        .split(' ')
        .collect()
});

#[tokio::test]
async fn endpoints_have_every_promised_key_and_null_for_what_is_unknown() {
    let (address, _) = started(yard(), Guard::default()).await;
    let all = ask(address, "GET", "/api/endpoints", "").await.json();
    let (a, b) = (&all["endpoints"][0], &all["endpoints"][1]);
    for key in ENDPOINT_KEYS.iter() {
        assert!(a.get(key).is_some() && b.get(key).is_some(), "{key}");
    }
    assert_eq!(
        (&a["address"], &a["name"], &a["labels"]),
        (&json!("10.0.0.1:8000"), &json!("A"), &json!({"role": "decode"}))
    );
    assert_eq!(
        (&a["ready"], &a["reason"], &a["scrape_age_ms"], &a["engine"]),
        (&json!(true), &Value::Null, &json!(120), &json!("vllm"))
    );
    assert_eq!((&a["running"], &a["waiting"], &a["kv_cache_usage"]), (&json!(1.0), &json!(2.0), &json!(0.45)));
    assert_eq!(a["lora"], json!({"running": ["chat-lora"], "waiting": [], "max": 2}));
    assert_eq!((&a["in_flight"], &a["cached_blocks"]), (&json!(3), &json!(33)));
    assert_eq!((&b["ready"], &b["reason"]), (&json!(false), &json!("connection refused")));
    for unknown in ["scrape_age_ms", "engine", "running", "waiting", "kv_cache_usage", "lora", "cached_blocks"] {
        assert_eq!(b[unknown], Value::Null, "{unknown}");
    }
}

#[tokio::test]
async fn the_configuration_comes_with_its_version() {
    let (address, _) = started(yard(), Guard::default()).await;
    let config = ask(address, "GET", "/api/config", "").await.json();
    assert_eq!(
        config,
        json!({"version": 7, "config": {"kind": "EndpointPickerConfig"}, "last_reload": null, "warnings": []})
    );
}

#[tokio::test]
async fn metrics_are_prometheus_text_unless_openmetrics_is_asked_for() {
    let (address, _) = started(yard(), Guard::default()).await;
    let old = ask(address, "GET", "/metrics", "").await;
    assert!(old.head.contains("text/plain; version=0.0.4") && old.body == "old\n", "{}", old.head);
    let accept = "Accept: application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2\r\n";
    let new = ask(address, "GET", "/metrics", accept).await;
    assert!(new.head.contains("application/openmetrics-text; version=1.0.0") && new.body.ends_with("# EOF\n"));
}

#[tokio::test]
async fn an_endpoint_is_drained_and_taken_back_by_name_by_full_name_and_by_address() {
    let (address, yard) = started(yard(), Guard::default()).await;
    let ready = |n: usize| yard.fleet.snapshot().endpoints[n].ready();
    for name in ["A", "default/A", "default%2FA", "10.0.0.1:8000"] {
        let out = ask(address, "POST", &format!("/api/endpoints/{name}/drain"), "Content-Length: 0\r\n").await;
        assert_eq!((out.status, out.json()["changed"].clone(), ready(0)), (200, json!(true), false), "{name}");
        let reason = out.json()["endpoint"]["reason"].as_str().unwrap().to_owned();
        assert_eq!(reason, "drained by hand (from 127.0.0.1)");
        let again = ask(address, "POST", &format!("/api/endpoints/{name}/drain"), "").await;
        assert_eq!(again.json()["changed"], false);
        let back = ask(address, "POST", &format!("/api/endpoints/{name}/undrain"), "").await;
        assert_eq!((back.status, ready(0)), (200, true), "{name}");
    }
    assert_eq!(ask(address, "POST", "/api/endpoints/B/drain", "").await.status, 409);
    assert_eq!(ask(address, "POST", "/api/endpoints/other/B/drain", "").await.status, 200);
    assert!(!ready(2));
    assert_eq!(ask(address, "POST", "/api/endpoints/Z/drain", "").await.status, 404);
    assert_eq!(ask(address, "POST", "/api/endpoints/%zz/drain", "").await.status, 400);
    assert_eq!(ask(address, "GET", "/api/endpoints/A/drain", "").await.status, 405);
}

#[tokio::test]
async fn undraining_does_not_hide_another_reason_to_be_out() {
    let yard = yard();
    let b = Arc::clone(&yard.fleet.snapshot().endpoints[1]);
    let (address, _) = started(yard, Guard::default()).await;
    ask(address, "POST", "/api/endpoints/default/B/drain", "").await;
    let back = ask(address, "POST", "/api/endpoints/default/B/undrain", "").await.json();
    assert_eq!(
        (&back["endpoint"]["ready"], &back["endpoint"]["reason"]),
        (&json!(false), &json!("connection refused"))
    );
    assert!(!b.ready());
}

#[tokio::test]
async fn a_page_of_another_site_reaches_nothing() {
    let (address, yard) = started(yard(), Guard::default()).await;
    let rebound = raw(address, "GET /api/config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n").await;
    assert_eq!(rebound.status, 403);
    assert!(rebound.message().contains("--admin-allowed-host"));
    let posted = ask(address, "POST", "/api/endpoints/A/drain", "Origin: http://evil.example\r\n").await;
    assert_eq!(posted.status, 403);
    assert!(yard.fleet.snapshot().endpoints[0].ready());
    let no_host = raw(address, "GET /api/config HTTP/1.0\r\n\r\n").await;
    assert_eq!(no_host.status, 400);
}

#[tokio::test]
async fn without_the_token_only_the_liveness_probe_is_answered() {
    let (address, _) = started(yard(), Guard { token: Some("t0".into()), ..Guard::default() }).await;
    for path in ["/metrics", "/api/config", "/api/endpoints", "/api/decisions", "/api/stream", "/api/prefix"] {
        let answer = ask(address, "GET", path, "").await;
        assert_eq!(answer.status, 401, "{path}");
        assert!(answer.head.contains("www-authenticate: bearer"));
    }
    for path in ["/metrics", "/api/config", "/api/endpoints", "/api/decisions"] {
        assert_eq!(ask(address, "GET", path, "Authorization: Bearer t0\r\n").await.status, 200, "{path}");
    }
    // The page itself is the same everywhere; it asks for the token.
    assert_eq!(ask(address, "GET", "/", "Accept: text/html\r\nAccept-Encoding: identity\r\n").await.status, 200);
    assert_eq!(ask(address, "GET", "/healthz", "").await.body, "ok\n");
}

#[tokio::test]
async fn in_read_only_mode_no_endpoint_can_be_drained() {
    let (address, yard) = started(yard(), Guard { read_only: true, ..Guard::default() }).await;
    let answer = ask(address, "POST", "/api/endpoints/A/drain", "").await;
    assert_eq!(answer.status, 403);
    assert!(answer.message().contains("read-only"));
    assert!(yard.fleet.snapshot().endpoints[0].ready());
    assert_eq!(ask(address, "GET", "/api/endpoints", "").await.status, 200);
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_what_is_unknown_is_said_to_be() {
    let (address, yard) = started(yard(), Guard::default()).await;
    let body = "x".repeat(5_000);
    let large = ask(address, "POST", "/api/endpoints/A/drain", &format!("Content-Length: 5000\r\n\r\n{body}")).await;
    assert_eq!(large.status, 413);
    assert!(yard.fleet.snapshot().endpoints[0].ready());
    let head = ask(address, "GET", "/", &format!("X-Long: {}\r\n", "y".repeat(60_000))).await;
    assert_eq!(head.status, 431);
    assert_eq!(ask(address, "GET", "/api/nothing", "").await.status, 404);
    assert_eq!(ask(address, "DELETE", "/api/config", "").await.status, 405);
    assert!(ask(address, "GET", "/", "").await.body.contains("/api/decisions"));
}

#[tokio::test]
async fn the_page_is_for_browsers_and_allows_nothing_from_elsewhere() {
    let (address, _) = started(yard(), Guard { token: Some("t".into()), ..Guard::default() }).await;
    let page = ask(address, "GET", "/", "Accept: text/html,*/*;q=0.8\r\n").await;
    assert!(page.status == 200 && page.head.contains("content-type: text/html") && page.body.contains("<title>"));
    assert!(page.head.contains("content-security-policy: default-src 'self'") && !page.head.contains("unsafe"));
    assert_eq!(
        ask(address, "GET", "/", "Accept: */*\r\nAuthorization: Bearer t\r\n").await.body.lines().next(),
        Some("Pointsman: admin listener")
    );
    for file in pointsman_console::FILES.iter().filter(|file| file.is_immutable()) {
        let answer = ask(address, "GET", &format!("/{}", file.path), "").await;
        assert!(answer.status == 200 && answer.head.contains("immutable"), "{}: {}", file.path, answer.head);
        let known = ask(address, "GET", &format!("/{}", file.path), &format!("If-None-Match: {}\r\n", file.etag)).await;
        assert_eq!((known.status, known.body.len()), (304, 0), "{}", file.path);
    }
    assert_eq!(ask(address, "GET", "/assets/../Cargo.toml", "Authorization: Bearer t\r\n").await.status, 404);
    assert_eq!(ask(address, "POST", "/", "Accept: text/html\r\n").await.status, 405);
}

#[tokio::test]
async fn a_stream_tells_of_the_fleet_and_ends_with_the_listener() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve(listener, Arc::new(yard()), Guard::default(), async {
        let _ = stopped.await;
    }));
    for bad in ["rate=0", "rate=101", "rate=x", "x=1"] {
        assert_eq!(ask(address, "GET", &format!("/api/stream?{bad}"), "").await.status, 400, "{bad}");
    }
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let (mut text, mut piece) = (String::new(), [0u8; 4096]);
    while !text.contains("event: fleet") || !text.contains("\"decided\":3") {
        let read =
            tokio::time::timeout(Duration::from_secs(5), stream.read(&mut piece)).await.expect("it speaks").unwrap();
        assert!(read > 0, "{text}");
        text.push_str(std::str::from_utf8(&piece[..read]).unwrap());
    }
    assert!(text.to_ascii_lowercase().contains("content-type: text/event-stream"));
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(1), serving).await.expect("no stream holds it up").unwrap().unwrap();
}

#[tokio::test]
async fn rescoring_changes_nothing_and_says_what_is_wrong_with_a_question() {
    let (address, _) = started(yard(), Guard { read_only: true, ..Guard::default() }).await;
    let post = async |body: &str| {
        let length = body.len();
        ask(address, "POST", "/api/rescore", &format!("Content-Length: {length}\r\n\r\n{body}")).await
    };
    let answer = post(r#"{"weights": {"queue-scorer": 2}, "limit": 2}"#).await;
    assert_eq!((answer.status, &answer.json()["decisions"], &answer.json()["unrated"]), (200, &json!(2), &json!(2)));
    for bad in ["", "{", r#"{"weights": {"a": "x"}}"#, r#"{"limit": 0}"#, r#"{"limit": 1001}"#, r#"{"other": 1}"#] {
        assert_eq!(post(bad).await.status, 400, "{bad}");
    }
    assert_eq!(ask(address, "GET", "/api/rescore", "").await.status, 405);
    assert_eq!(ask(address, "GET", "/api/prefix", "").await.status, 404);
}

#[tokio::test]
async fn phases_are_computed_for_what_is_asked_and_nonsense_is_refused() {
    let (address, _) = started(yard(), Guard::default()).await;
    let answer =
        ask(address, "GET", "/api/phases?model=llama-3.1-70b&bandwidth=1.17e9&stall_weight=0", "").await.json();
    assert_eq!((&answer["threshold_tokens"], &answer["at"]["disaggregate"]), (&Value::Null, &json!(false)));
    for bad in ["model=gpt", "prompt=0", "prompt=NaN", "bandwidth=0", "held_decode=1.1", "x=1"] {
        assert_eq!(ask(address, "GET", &format!("/api/phases?{bad}"), "").await.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn a_stopped_listener_ends() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = tokio::spawn(serve(listener, Arc::new(yard()), Guard::default(), async {
        let _ = stopped.await;
    }));
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), serving).await.expect("it ends").unwrap().unwrap();
}

#[tokio::test]
async fn profiles_are_gzipped_files_for_those_whom_the_guard_admits() {
    let (address, _) = started(yard(), Guard { token: Some("t".into()), ..Guard::default() }).await;
    let fetch = async |target: &str| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = "Host: localhost\r\nConnection: close\r\nAuthorization: Bearer t";
        stream.write_all(format!("GET {target} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes()).await.unwrap();
        let mut all = Vec::new();
        tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut all)).await.expect("in time").unwrap();
        let end = all.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
        (String::from_utf8_lossy(&all[..end]).to_ascii_lowercase(), all[end..].to_vec())
    };
    for (target, name) in
        [("/debug/pprof/profile?seconds=1", "profile.pb.gz"), ("/debug/pprof/heap?seconds=1", "heap.pb.gz")]
    {
        let (head, body) = fetch(target).await;
        assert!(head.starts_with("http/1.1 200") && head.contains(name), "{target}: {head}");
        assert_eq!(body[..2], [0x1f, 0x8b], "{target}");
    }
    assert_eq!(ask(address, "GET", "/debug/pprof/heap", "").await.status, 401);
    let token = "Authorization: Bearer t\r\n";
    for seconds in ["0", "301", "-1", "x", ""] {
        let target = format!("/debug/pprof/profile?seconds={seconds}");
        assert_eq!(ask(address, "GET", &target, token).await.status, 400, "{seconds}");
    }
    let unsampled = ask(address, "GET", "/debug/pprof/heap", token).await;
    assert!(unsampled.status == 501 && unsampled.message().contains("prof_active:true"), "{}", unsampled.body);
    assert_eq!(ask(address, "POST", "/debug/pprof/heap", token).await.status, 405);
    assert_eq!(ask(address, "GET", "/debug/pprof/goroutine", token).await.status, 404);
}
