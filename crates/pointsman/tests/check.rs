//! `pointsman check` as a shell sees it: the corpus, files around documents, and engines that are asked.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn check_in(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pointsman"));
    command.arg("check").args(args).current_dir(folder).stdin(Stdio::null()).output().expect("the program runs")
}

fn check(args: &[&str]) -> Output {
    check_in(Path::new(env!("CARGO_MANIFEST_DIR")), args)
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("it ends by itself")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn json(output: &Output) -> Value {
    serde_json::from_str(&out(output)).unwrap_or_else(|e| panic!("{e}: {}", out(output)))
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins/tests/configs")
}

#[test]
fn every_document_of_the_corpus_is_reported_as_written_down_and_ends_with_0_or_1() {
    let entries = std::fs::read_dir(corpus()).expect("the corpus").map(|e| e.expect("an entry").path());
    let mut judged = 0;
    for file in entries.filter(|f| f.extension().is_some_and(|e| e == "yaml")) {
        let text = String::from_utf8_lossy(&std::fs::read(&file).expect("readable")).into_owned();
        let flags = text.lines().find_map(|l| l.strip_prefix("# check:")).unwrap_or_default();
        let name = file.file_name().and_then(|n| n.to_str()).expect("a name");
        let args: Vec<&str> = flags.split_whitespace().chain([name]).collect();
        let output = check_in(&corpus(), &args);
        let want = std::fs::read_to_string(file.with_extension("txt")).expect("a report");
        assert_eq!(out(&output), want, "{name}");
        let errors = want.lines().last().is_some_and(|l| l.contains(" error"));
        assert_eq!(code(&output), i32::from(errors), "{name}");
        judged += 1;
    }
    assert!(judged > 50, "only {judged} documents");
}

#[test]
fn json_has_codes_places_and_each_configuration_of_a_file() {
    let report = json(&check_in(&corpus(), &["--json", "--show", "helm-values.yaml", "good-two-configmaps.yaml"]));
    let first = &report[0]["faults"][0];
    assert_eq!((first["code"].as_str(), first["line"].as_u64()), (Some("no-parameters"), Some(9)));
    assert!(first["end_column"].as_u64() > first["column"].as_u64(), "{first}");
    assert_eq!(report[0]["documents"][0]["at"], "router.epp.pluginsCustomConfig.epp.yaml");
    let both = report[1]["documents"].as_array().expect("documents");
    assert_eq!(
        both.iter().map(|d| d["at"].as_str().expect("text")).collect::<Vec<_>>(),
        ["data.a.yaml", "data.b.yaml"]
    );
    assert!(both.iter().all(|d| d["usable"] == true && d["effective"].is_object()), "{report}");
    assert!(report[1]["effective"].is_null());
}

#[test]
fn strict_makes_errors_of_warnings() {
    assert_eq!(code(&check_in(&corpus(), &["zero-weight.yaml"])), 0);
    let strict = check_in(&corpus(), &["--strict", "--json", "zero-weight.yaml"]);
    let file = &json(&strict)[0];
    assert_eq!((code(&strict), &file["usable"]), (1, &Value::Bool(false)));
    assert_eq!(file["documents"][0]["usable"], false, "{file}");
}

#[test]
fn what_show_prints_of_the_default_and_of_every_preset_is_accepted_with_strict() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &[u8]| {
        let file = folder.path().join(name);
        std::fs::write(&file, text).expect("the file can be written");
        file.to_str().expect("UTF-8").to_owned()
    };
    let mut documents: Vec<(&str, String)> = vec![("default", String::new())];
    documents.extend(pointsman_plugins::presets::PRESETS.iter().map(|p| (p.name, p.document())));
    for (name, text) in documents {
        for default in ["serve", "epp"] {
            let shown = check(&["--show", "--default", default, &file(name, text.as_bytes())]);
            let again = check(&["--strict", &file("shown.yaml", &shown.stdout)]);
            assert_eq!(code(&again), 0, "{name}: {}{}", out(&shown), out(&again));
        }
    }
}

/// A server that answers every path it knows, and others with 404.
struct Fake(String);

impl Fake {
    fn start(pages: &[(&'static str, String)]) -> Self {
        Self::dated(pages, "")
    }

    fn dated(pages: &[(&'static str, String)], date: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let pages = pages.to_vec();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                // What begins a TLS handshake is no request, as engines say, too.
                let mut first = [0];
                if stream.peek(&mut first).is_ok() && first == [0x16] {
                    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n");
                    continue;
                }
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
                let _ = reader.read_line(&mut line);
                let mut rest = String::new();
                while reader.read_line(&mut rest).is_ok_and(|n| n > 2) {
                    rest.clear();
                }
                let path = line.split(' ').nth(1).unwrap_or_default();
                let page = pages.iter().find(|(known, _)| *known == path);
                let (status, body) = page.map_or(("404 Not Found", ""), |(_, body)| ("200 OK", body.as_str()));
                let length = body.len();
                let date = if date.is_empty() { String::new() } else { format!("date: {date}\r\n") };
                let head = format!("HTTP/1.1 {status}\r\n{date}content-length: {length}\r\nconnection: close\r\n\r\n");
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
            }
        });
        Self(address)
    }
}

fn recorded(page: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures/vllm/metrics").join(page);
    std::fs::read_to_string(file).expect("a recorded page")
}

fn models(id: &str) -> String {
    format!(r#"{{"object":"list","data":[{{"id":"{id}","parent":null,"max_model_len":2048}}]}}"#)
}

/// A configuration that reads adapters.
fn lora(folder: &tempfile::TempDir) -> String {
    let text = "plugins: [{type: lora-affinity-scorer}, {type: queue-scorer}, {type: prefix-cache-scorer}]\n";
    let file = folder.path().join("lora.yaml");
    std::fs::write(&file, text).expect("the file can be written");
    file.to_str().expect("UTF-8").to_owned()
}

fn codes(report: &Value) -> Vec<(String, String)> {
    let findings = report["against"]["findings"].as_array().unwrap_or_else(|| panic!("findings: {report}"));
    let of = |f: &Value, key: &str| f[key].as_str().expect("text").to_owned();
    findings.iter().map(|f| (of(f, "code"), of(f, "severity"))).collect()
}

fn pairs(want: &[(&str, &str)]) -> Vec<(String, String)> {
    want.iter().map(|(code, severity)| ((*code).to_owned(), (*severity).to_owned())).collect()
}

#[test]
fn engines_that_show_what_the_configuration_reads_fit_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = Fake::start(&[
        ("/metrics", recorded("idle-lora-enabled.prom")),
        ("/v1/models", models("tiny")),
        ("/version", r#"{"version":"0.32.0"}"#.to_owned()),
    ]);
    let output = check(&["--against", &engine.0, &lora(&folder)]);
    let text = out(&output);
    assert_eq!(code(&output), 0, "{text}");
    for part in [
        &format!("{}: vllm 0.32.0, serves tiny, blocks of 32 tokens\n", engine.0),
        "1 engine: they fit the configuration\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn each_misfit_says_what_to_change_and_on_which_side() {
    let folder = tempfile::tempdir().expect("a folder");
    let off =
        recorded("idle-no-lora.prom").replace("enable_prefix_caching=\"True\"", "enable_prefix_caching=\"False\"");
    let info = r#"{"vllm_config":{"scheduler_config":{"max_num_seqs":128},"kv_events_config":null}}"#.to_owned();
    let first = Fake::dated(
        &[("/metrics", off), ("/v1/models", models("tiny")), ("/server_info?config_format=json", info)],
        "Sun, 29 Nov 2020 17:40:16 GMT",
    );
    let second = Fake::start(&[("/metrics", "sglang:num_queue_reqs 0\n".to_owned()), ("/v1/models", models("other"))]);
    let third = Fake::start(&[("/v1/models", models("tiny"))]);
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").to_string();
    let engines = [first.0.as_str(), &second.0, &third.0, &nobody].join(",");
    let file = lora(&folder);
    let output = check(&["--against", &engines, "--json", &file]);
    let report = json(&output);
    assert_eq!((code(&output), &report["against"]["fits"]), (1, &Value::Bool(false)));
    let want = [
        ("prefix-caching-off", "error"),
        ("other-engine-kind", "error"),
        ("no-metrics-page", "error"),
        ("unreachable", "error"),
        ("missing-metric", "warning"),
        ("clock-skew", "warning"),
        ("models-differ", "warning"),
    ];
    assert_eq!(codes(&report), pairs(&want), "{report:#}");
    assert_eq!(report["against"]["engines"][0]["max_num_seqs"], 128);
    let text = out(&check(&["--against", &engines, &file]));
    for part in [
        "no metric `vllm:lora_requests_info`, by which `lora-affinity-scorer` reads LoRA adapters, and rates it 0 for every adapter\n",
        "change the engine: start vLLM with --enable-lora\n",
        "change the configuration: leave `lora-affinity-scorer` out\n",
        "label the endpoint `llm-d.ai/engine-type: sglang`",
        "no answer: connection refused",
        "4 engines: 4 errors, 3 warnings\n",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn an_engine_that_speaks_plain_http_is_told_from_one_that_does_not_run() {
    let engine = Fake::start(&[("/v1/models", models("tiny"))]);
    let output = check(&["--against", &format!("https://{}", engine.0)]);
    let text = out(&output);
    assert_eq!(code(&output), 1, "{text}");
    assert!(text.contains("it speaks plain HTTP: TLS handshake failed"), "{text}");
    assert!(text.contains(&format!("change the configuration: write http://{}\n", engine.0)), "{text}");
}

#[test]
fn a_configuration_with_faults_is_told_before_any_engine_is_asked() {
    let output = check_in(&corpus(), &["--against", "127.0.0.1:1", "unknown-type.yaml"]);
    assert_eq!(code(&output), 1);
    assert!(out(&output).contains("did you mean") && !out(&output).contains("no answer"), "{}", out(&output));
    for wrong in [
        &["--against", "no-port"][..],
        &["--against", "a:1,,b:2"],
        &["--against", "a:1", "good-empty.yaml", "good-json.yaml"],
    ] {
        assert_eq!(code(&check_in(&corpus(), wrong)), 2, "{wrong:?}");
    }
}

/// A simulated vLLM.
struct Engine {
    child: Child,
    address: String,
}

impl Engine {
    fn start(args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port").port().to_string();
        let child = Command::new(env!("CARGO_BIN_EXE_pointsman"))
            .args(["engine", "--port", &port])
            .args(args)
            .stderr(Stdio::null())
            .spawn()
            .expect("the program runs");
        let engine = Self { child, address: format!("127.0.0.1:{port}") };
        let deadline = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(&engine.address).is_err() {
            assert!(Instant::now() < deadline, "it does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        engine
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn simulated_engines_fit_the_default_and_what_differs_among_them_is_told() {
    let (a, b) = (
        Engine::start(&["--model", "m", "--block-size", "16"]),
        Engine::start(&["--model", "m", "--block-size", "32"]),
    );
    let one = check(&["--against", &a.address, "--json"]);
    assert_eq!((code(&one), codes(&json(&one))), (0, vec![]), "{}", out(&one));
    let both = check(&["--against", &format!("http://{},http://{}", a.address, b.address), "--json"]);
    assert_eq!((code(&both), codes(&json(&both))), (0, pairs(&[("block-sizes-differ", "warning")])), "{}", out(&both));
    let strict = check(&["--strict", "--against", &format!("{},{}", a.address, b.address)]);
    assert_eq!(code(&strict), 1);
}
