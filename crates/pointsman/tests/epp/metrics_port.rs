//! The metrics port (request-lifecycle 6.4).

use std::collections::BTreeMap;

use crate::support::differences::settle;
use crate::support::http::ask;
use crate::support::process::Epp;
use crate::support::{golden, json};

#[tokio::test]
async fn the_metrics_port_answers_as_recorded() {
    let epp = Epp::start(&["127.0.0.11:8000"], &["--secure-serving=false", "--enable-grpc-stream-metrics"]);
    let recorded = json(&golden("metrics/http-9090-file-mode.json"));
    let mut found = BTreeMap::new();
    for request in recorded["requests"].as_array().expect("requests") {
        let text = |key: &str| request[key].as_str().unwrap_or_default();
        let headers = request["headers"].as_object().expect("headers");
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap_or(""))).collect();
        let (method, path) = (text("method"), text("path"));
        let ours = ask(epp.metrics, method, path, &headers).await;
        let (status, kind) = (request["status"].as_u64().unwrap_or(0), text("content_type"));
        let key = format!("metrics port/{method} {path}");
        let theirs = format!("{status} {kind}");
        let mut said = format!("{} {}", ours.status, ours.content_type);
        // A body is written down when it is short, and is then a fact unless it tells of the process itself.
        let short = !text("body").ends_with(" bytes") && !path.ends_with("cmdline");
        let same = !short || ours.body == text("body");
        if !same && said == theirs {
            said = format!("{said}: {}", ours.body);
        }
        if said != theirs {
            found.insert(key, said);
        }
        if text("tail").ends_with("# EOF\n") {
            assert!(ours.body.ends_with("# EOF\n") || ours.body.contains("# EOF\n\r\n"), "{path}: {}", ours.body);
        }
    }
    settle("metrics port/", &found);
}

#[tokio::test]
async fn plugin_states_are_read_only() {
    let epp = Epp::start(&["127.0.0.11:8000"], &["--secure-serving=false"]);
    let answer = ask(epp.metrics, "GET", "/debug/plugins/state", "").await;
    let state: serde_json::Value =
        serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {}", answer.body));
    assert_eq!(state["plugins"]["queue-scorer"]["message"], "plugin does not support state collection", "{state}");
    let refused = ask(epp.metrics, "POST", "/debug/plugins/state", "").await;
    assert!(refused.status == 405 && refused.head.contains("allow: get"), "{refused:?}");
}
