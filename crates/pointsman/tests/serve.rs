//! `pointsman serve` as a person meets it: started, asked, drained, stopped.

mod documented;
mod support;
mod traced;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use support::{Serve, chat, exchange, text_of};

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

/// A log line that cannot be written is lost, and nothing else.
#[test]
fn a_stop_signal_is_heard_when_nobody_reads_stderr_any_more() {
    let mut serve = Serve::start(&["--drain-timeout", "5s"]);
    serve.deafen();
    for _ in 0..3 {
        serve.text(&["drain", "A"]);
        serve.text(&["undrain", "A"]);
    }
    serve.signal("-TERM");
    assert_eq!(serve.wait(Duration::from_secs(10)), Some(0));
}

/// The first signal lets a running stream end, the second one does not wait for it.
#[test]
fn a_running_stream_may_finish_unless_a_second_signal_comes() {
    let stream = |serve: &Serve, tokens: u32| {
        let body = json!({"model": "demo", "prompt": "x", "stream": true, "max_tokens": tokens, "ignore_eos": true})
            .to_string();
        let gateway = serve.gateway.clone();
        let asked =
            std::thread::spawn(move || std::panic::catch_unwind(|| text_of(&gateway, "/v1/completions", &body)));
        std::thread::sleep(Duration::from_millis(300));
        asked
    };
    let mut patient = Serve::start(&[]);
    let asked = stream(&patient, 60);
    patient.signal("-TERM");
    let text = asked.join().expect("it ends").expect("an answer");
    assert!(text.contains("data: [DONE]"), "{text}");
    assert_eq!(patient.wait(Duration::from_secs(10)), Some(0));

    let mut hurried = Serve::start(&[]);
    let asked = stream(&hurried, 100_000);
    hurried.signal("-TERM");
    assert_eq!(hurried.wait(Duration::from_millis(500)), None, "a stream is under way");
    hurried.signal("-INT");
    assert_eq!(hurried.wait(Duration::from_secs(5)), Some(3));
    let _ = asked.join();
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

/// A conversation stays where its beginning is cached, and what was predicted is what the engine had.
#[test]
fn five_turns_of_a_conversation_land_on_one_engine_with_a_growing_match() {
    let serve = Serve::start(&[]);
    let (mut messages, mut picks, mut matches) = (Vec::new(), Vec::new(), Vec::new());
    for turn in 0..5 {
        let text: String = (0..300).map(|word| format!("t{turn}w{word} ")).collect();
        messages.push(json!({"role": "user", "content": text}));
        let body = json!({"model": "demo", "max_tokens": 2, "messages": messages}).to_string();
        let (status, _, answer) = exchange(&serve.gateway, "POST", "/v1/chat/completions", &body);
        assert_eq!(status, 200);
        messages.push(answer["choices"][0]["message"].clone());
        let record = serve.last();
        picks.push(record["profiles"][0]["picked"][0].as_str().expect("a pick").to_owned());
        let predicted = record["outcome"]["cached_tokens_predicted"].as_i64().expect("a prediction");
        let actual = record["outcome"]["cached_tokens"].as_i64().expect("the engine tells");
        let block = record["block_tokens"].as_i64().expect("a block size");
        assert!((predicted - actual).abs() <= block, "turn {turn}: {predicted} predicted, {actual} actual");
        matches.push(predicted);
    }
    assert!(picks.iter().all(|pick| *pick == picks[0]), "{picks:?}");
    assert!(matches[0] == 0 && matches.windows(2).all(|pair| pair[0] < pair[1]), "{matches:?}");
    assert!(serve.text(&["explain", "last"]).contains(&format!("{} holds ", picks[0])));
}

/// BR-49 on real engines: equal engines share what has nothing to do with each other.
#[test]
fn two_hundred_unrelated_prompts_use_every_ready_engine_and_none_for_more_than_half() {
    let serve = Serve::start(&[]);
    std::thread::scope(|scope| {
        let start = Instant::now();
        for n in 0..200u32 {
            std::thread::sleep((start + Duration::from_millis(25) * n).saturating_duration_since(Instant::now()));
            let gateway = &serve.gateway;
            scope.spawn(move || {
                assert_eq!(chat(gateway, "demo", &format!("prompt {n} of its own kind, {}", n * 7919)).0, 200)
            });
        }
    });
    let (_, _, all) = exchange(&serve.admin, "GET", "/api/decisions?limit=1000", "");
    let mut used = std::collections::BTreeMap::<String, usize>::new();
    for decision in all["decisions"].as_array().expect("decisions") {
        *used.entry(decision["profiles"][0]["picked"][0].as_str().expect("a pick").to_owned()).or_default() += 1;
    }
    assert_eq!(used.values().sum::<usize>(), 200);
    assert_eq!(used.keys().map(String::as_str).collect::<Vec<_>>(), ["A", "B", "C", "E", "F"]);
    assert!(used.values().all(|n| *n <= 100), "{used:?}");
}

/// The row of an endpoint that is not ready, without how long that has been so.
fn timeless(text: &str) -> String {
    const SINCE: &str = "not ready for ";
    match text.split_once(SINCE).and_then(|(before, rest)| Some((before, rest.split_once(':')?.1))) {
        Some((before, why)) => format!("{before}{SINCE}...:{why}"),
        None => text.to_owned(),
    }
}

/// What the README shows is what comes out; times differ from run to run and are left out.
#[test]
fn the_readme_shows_the_frozen_demonstration_as_it_is() {
    let readme =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).expect("a README");
    let serve = Serve::start(&["--demo", "deck"]);
    let prompt = "You are a helpful assistant of the railway. ".repeat(40);
    for _ in 0..2 {
        assert_eq!(serve.chat("demo", &prompt).0, 200);
        serve.last();
    }
    let shown = serve.text(&["explain", "last"]);
    let steady = |line: &&str| {
        let known = ["profile ", "  endpoint ", "> F ", "  A ", "  B ", "  C ", "  D ", "  E ", "prefix "];
        known.iter().any(|start| line.starts_with(start))
    };
    let lines: Vec<&str> = shown.lines().filter(steady).collect();
    assert_eq!(lines.len(), 9, "{shown}");
    let readme: Vec<String> = readme.lines().map(timeless).collect();
    for line in lines {
        assert!(readme.contains(&timeless(&format!("    {line}"))), "not in the README:\n{line}\n{shown}");
    }
}

#[test]
fn a_simulated_engine_runs_by_itself_until_it_is_told_to_stop() {
    let mut engine = Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["engine", "--port", "0", "--log-format", "json"])
        .env_remove("RUST_LOG")
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut line = String::new();
    let mut stderr = std::io::BufReader::new(engine.stderr.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stderr, &mut line).expect("a line");
    let logged: Value = serde_json::from_str(&line).expect("a line of JSON");
    let address = logged["fields"]["address"].as_str().expect("an address");
    let (status, _, models) = exchange(address, "GET", "/v1/models", "");
    assert_eq!((status, &models["data"][0]["id"]), (200, &json!("demo")));
    assert!(Command::new("kill").arg(engine.id().to_string()).status().expect("kill runs").success());
    assert_eq!(engine.wait().expect("it ends").code(), Some(0));
}
