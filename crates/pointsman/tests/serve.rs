//! `pointsman serve` as a person meets it: started, asked, drained, stopped.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// A started process; dropped, it is gone.
struct Serve {
    child: Child,
    gateway: String,
    admin: String,
    banner: String,
    stderr: Receiver<String>,
}

impl Drop for Serve {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Serve {
    fn start(args: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pointsman"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
            .args(args)
            .env_remove("POINTSMAN_ADMIN_TOKEN")
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs");
        let (sender, stderr) = channel();
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut banner = String::new();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !banner.contains("Why that engine?") {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = stderr.recv_timeout(left).unwrap_or_else(|e| panic!("{e} after:\n{banner}"));
            banner.push_str(&line);
            banner.push('\n');
        }
        let address = |label: &str| {
            let line = banner.lines().find(|l| l.trim_start().starts_with(label)).expect("a line of the banner");
            line.split_whitespace().nth(1).and_then(|url| url.split("://").nth(1)).expect("a URL").to_owned()
        };
        let (gateway, admin) = (address("gateway"), address("admin"));
        Self { child, gateway, admin, banner, stderr }
    }

    fn command(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
        command.args(args).args(["--admin", &self.admin]).output().expect("the program runs")
    }

    fn text(&self, args: &[&str]) -> String {
        let output = self.command(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    /// Sends a chat completion and gives status, head and body.
    fn chat(&self, model: &str, prompt: &str) -> (u16, String, Value) {
        let body =
            json!({"model": model, "max_tokens": 4, "messages": [{"role": "user", "content": prompt}]}).to_string();
        exchange(&self.gateway, "POST", "/v1/chat/completions", &body)
    }

    /// The newest decision, once its request is over.
    fn last(&self) -> Value {
        let deadline = Instant::now() + Duration::from_secs(10);
        loop {
            let record: Value = serde_json::from_str(&self.text(&["explain", "last", "--json"])).expect("JSON");
            if !record["outcome"]["ended"].is_null() {
                return record;
            }
            assert!(Instant::now() < deadline, "the request never ended: {record}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().expect("kill runs");
        assert!(sent.success());
    }

    fn wait(&mut self, at_most: Duration) -> Option<i32> {
        let deadline = Instant::now() + at_most;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait().expect("it can be asked") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

fn exchange(address: &str, method: &str, path: &str, body: &str) -> (u16, String, Value) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a time-out can be set");
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    // A chunked body is one object here: what stands between the first and the last brace.
    let object = body.find('{').zip(body.rfind('}')).map(|(from, to)| &body[from..=to]);
    (status, head.to_ascii_lowercase(), object.and_then(|o| serde_json::from_str(o).ok()).unwrap_or_default())
}

#[test]
fn without_endpoints_the_banners_curl_line_works_and_the_decision_is_explained() {
    let serve = Serve::start(&[]);
    for part in [
        "No endpoints given: running six simulated engines (A-F)",
        "5 of 6 ready",
        "D: unready (simulated)",
        "queue 2, kv 2, active 2, prefix 3",
    ] {
        assert!(serve.banner.contains(part), "{part}:\n{}", serve.banner);
    }
    let curl = serve.banner.split_once("Try:  ").and_then(|(_, rest)| rest.split_once("\nWhy")).expect("a curl line").0;
    let ran = Command::new("sh").arg("-c").arg(format!("{curl} -s -D -")).output().expect("sh runs");
    let answer = String::from_utf8_lossy(&ran.stdout).to_ascii_lowercase();
    if ran.status.code() == Some(127) {
        // No curl here: the same request by hand.
        assert_eq!(serve.chat("demo", "Hello").0, 200);
    } else {
        assert!(
            answer.contains("200 ok") && answer.contains("x-pointsman-decision") && answer.contains("chat.completion"),
            "{answer}"
        );
    }
    let record = serve.last();
    assert_eq!((&record["outcome"]["status"], &record["path"]), (&json!(200), &json!("/v1/chat/completions")));
    let text = serve.text(&["explain", "last"]);
    for part in ["decision ", "model demo", "6 endpoints, 1 not ready", "\n> ", "queue x2", "outcome    200, TTFT "] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    let id = record["id"].as_str().expect("an id");
    assert_eq!(serve.text(&["explain", id]), text);
    assert_eq!(serve.command(&["explain", "0000000000000"]).status.code(), Some(1), "an id that is not on record");
}

#[test]
fn status_shows_the_pool_and_drain_takes_an_endpoint_out_with_an_audit_line() {
    let serve = Serve::start(&[]);
    let before = serve.text(&["status"]);
    assert!(before.contains("5 of 6 endpoints ready"), "{before}");
    assert!(serve.text(&["drain", "A"]).starts_with("A gets no new requests"));
    assert!(serve.text(&["status"]).contains("drained by hand (from 127.0.0.1)"));
    let audit = std::iter::from_fn(|| serve.stderr.recv_timeout(Duration::from_secs(5)).ok())
        .find(|l| l.contains("drained by hand"));
    assert!(audit.as_deref().is_some_and(|line| line.contains("127.0.0.1")), "{audit:?}");
    for n in 0..8 {
        assert_eq!(serve.chat("demo", &format!("prompt {n}")).0, 200);
        assert_ne!(serve.last()["profiles"][0]["picked"][0], "A");
    }
    assert_eq!(serve.text(&["undrain", "A"]), "A is no longer drained, and ready\n");
    assert_eq!(serve.command(&["drain", "Z"]).status.code(), Some(1), "there is no Z");
}

/// The worked example: KV cache .45 .82 .31 .67 .55 .20, waiting 2 6 1 - 3 0, weights .40 .25 .25 .10; D unready.
#[test]
fn the_frozen_demonstration_gives_the_scores_of_the_worked_example() {
    let serve = Serve::start(&["--demo", "deck"]);
    let prompt = "You are a helpful assistant of the railway. ".repeat(40);
    let (status, head, _) = serve.chat("demo", &prompt);
    assert_eq!(status, 200, "{head}");
    let cold = serve.last();
    let total = |record: &Value, name: &str| {
        let candidates = record["profiles"][0]["candidates"].as_array().expect("candidates");
        candidates.iter().find(|c| c["endpoint"] == name).and_then(|c| c["total"].as_f64())
    };
    let want = [("A", 0.3841666666666667), ("B", 0.125), ("C", 0.38083333333333336), ("E", 0.2375), ("F", 0.53)];
    for (name, want) in want {
        let got = total(&cold, name).unwrap_or_else(|| panic!("{name} has a total: {cold}"));
        assert!((got - want).abs() < 1e-6, "{name}: {got}, not {want}");
    }
    assert_eq!(total(&cold, "D"), None);
    assert_eq!(cold["profiles"][0]["picked"], json!(["F"]));
    serve.chat("demo", &prompt);
    let warm = serve.last();
    assert!((total(&warm, "F").expect("a total") - 0.93).abs() < 1e-6, "{warm}");
    let predicted = warm["outcome"]["cached_tokens_predicted"].as_i64().expect("a prediction");
    let actual = warm["outcome"]["cached_tokens"].as_i64().expect("the engine tells");
    let block = warm["block_tokens"].as_i64().expect("a block size");
    assert!(predicted > 0 && (predicted - actual).abs() <= block, "{predicted} predicted, {actual} actual");
}

#[test]
fn finished_decisions_are_logged_as_json_lines_and_the_log_is_reopened_on_hang_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let (log, moved) = (folder.path().join("decisions.jsonl"), folder.path().join("decisions.1.jsonl"));
    let serve = Serve::start(&["--decision-log", log.to_str().expect("UTF-8")]);
    let lines = |path: &Path| -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("whole lines of JSON")).collect()
    };
    let until = |path: &Path, n: usize| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while lines(path).len() < n {
            assert!(Instant::now() < deadline, "{} has {} lines", path.display(), lines(path).len());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    serve.chat("demo", "one");
    until(&log, 1);
    assert_eq!(
        (&lines(&log)[0]["outcome"]["status"], &lines(&log)[0]["outcome"]["ended"]),
        (&json!(200), &json!("natural"))
    );
    std::fs::rename(&log, &moved).expect("it can be moved");
    serve.signal("-HUP");
    // The signal is taken before the next line is written, or that line still goes to the old file.
    std::thread::sleep(Duration::from_millis(700));
    serve.chat("demo", "two");
    until(&log, 1);
    assert_eq!((lines(&moved).len(), lines(&log).len()), (1, 1));
}

#[test]
fn a_stop_signal_ends_the_process_with_0() {
    let mut serve = Serve::start(&["--drain-timeout", "5s"]);
    serve.signal("-TERM");
    assert_eq!(serve.wait(Duration::from_secs(10)), Some(0));
}

#[test]
fn the_admin_listener_can_demand_a_token_and_refuse_changes() {
    let serve = Serve::start(&["--admin-token", "t0", "--admin-read-only"]);
    assert_eq!(serve.command(&["status"]).status.code(), Some(3));
    assert_eq!(serve.command(&["status", "--admin-token", "t0"]).status.code(), Some(0));
    let drain = serve.command(&["drain", "A", "--admin-token", "t0"]);
    assert!(drain.status.code() == Some(3) && String::from_utf8_lossy(&drain.stderr).contains("read-only"));
    let (status, ..) = exchange(&serve.admin, "GET", "/healthz", "");
    assert_eq!(status, 200);
}

#[test]
fn metrics_and_the_effective_configuration_are_on_the_admin_listener() {
    let serve = Serve::start(&["--config-text", "", "--decision-headers", "off"]);
    let (status, head, _) = serve.chat("demo", "Hello");
    assert!(status == 200 && !head.contains("x-pointsman-"), "{head}");
    let (status, _, config) = exchange(&serve.admin, "GET", "/api/config", "");
    assert_eq!(
        (status, &config["version"], &config["config"]["kind"]),
        (200, &json!(1), &json!("EndpointPickerConfig"))
    );
    let (status, head, _) = exchange(&serve.admin, "GET", "/metrics", "");
    assert!(status == 200 && head.contains("text/plain"), "{head}");
}
