//! What `docs/tracing.md` says.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::support::Serve;

fn page() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tracing.md");
    std::fs::read_to_string(path).expect("it is there")
}

/// The variables of the command that ends with `pointsman serve` and begins so.
fn variables<'a>(page: &'a str, begins: &str) -> Vec<(&'a str, &'a str)> {
    let line = page.lines().map(str::trim).find(|l| l.starts_with(begins)).expect("a command");
    line.strip_suffix(" pointsman serve")
        .expect("it starts a gateway")
        .split(' ')
        .filter_map(|w| w.split_once('='))
        .collect()
}

#[test]
fn the_documented_command_prints_every_span_of_a_request_on_stdout() {
    let page = page();
    let told = variables(&page, "OTEL_TRACES_EXPORTER=console");
    let told: Vec<_> = told.into_iter().chain([("OTEL_BSP_SCHEDULE_DELAY", "50")]).collect();
    let mut serve = Serve::start_in(&[], &told, Stdio::piped());
    let lines = BufReader::new(serve.stdout()).lines();
    assert_eq!(serve.chat("demo", "Hello").0, 200);
    let mut spans: Vec<Value> = Vec::new();
    for line in lines.map_while(Result::ok) {
        spans.push(serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line}")));
        if spans.iter().any(|s| s["name"] == "gateway.request") {
            break;
        }
    }
    for span in &spans {
        let name = span["name"].as_str().expect("a name");
        let documented = if name.starts_with("llm_d.epp.scorer.") { "llm_d.epp.scorer.<type>" } else { name };
        assert!(page.contains(&format!("| `{documented}` |")), "{name} is not in the page");
        assert_eq!(span["trace_id"], spans[0]["trace_id"]);
        assert_eq!(span["resource"]["service.name"], "llm-d-epp");
    }
    for name in ["gateway.request_orchestration", "run_scheduler_profile", "filter_endpoints", "pick_endpoints"] {
        assert!(spans.iter().any(|s| s["name"] == name), "{name} is not among {spans:?}");
    }
}

#[test]
fn a_collector_that_is_gone_loses_no_request_and_does_not_hold_up_the_stop() {
    let gone = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("it is bound");
    let endpoint = format!("http://{gone}");
    let told = [
        ("OTEL_TRACES_EXPORTER", "otlp"),
        ("OTEL_TRACES_SAMPLER", "always_on"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint),
        ("OTEL_BSP_SCHEDULE_DELAY", "20"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "16"),
    ];
    let mut serve = Serve::start_in(&[], &told, Stdio::null());
    for n in 0..50 {
        assert_eq!(serve.chat("demo", &format!("prompt {n}")).0, 200);
    }
    serve.signal("-TERM");
    assert_eq!(serve.wait(Duration::from_secs(15)), Some(0));
}

#[test]
fn an_exporter_that_cannot_be_made_is_a_failure_that_says_which_variable() {
    let told = [("OTEL_TRACES_EXPORTER", "otlp"), ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")];
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_pointsman"))
        .args(["serve", "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"])
        .envs(told)
        .output()
        .expect("the program runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(3) && said.contains("OTEL_EXPORTER_OTLP_CERTIFICATE"), "{said}");
}
