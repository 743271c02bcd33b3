//! gRPC health, on its own port and on that of the external processor (request-lifecycle 6.5).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::Value;

use crate::support::differences::settle;
use crate::support::grpc::{Client, spelled};
use crate::support::process::{CONFIG, Epp, folder, write};
use crate::support::{golden, json};

const PICKER: &str = "envoy.service.ext_proc.v3.ExternalProcessor";

/// Compares one port with what was recorded of it.
async fn differing(key: &str, port: SocketAddr, recorded: &Value, found: &mut BTreeMap<String, String>) {
    let mut client = Client::connect(port).await;
    let mut note = |what: String, theirs: &str, ours: String| {
        if theirs != ours {
            found.insert(format!("health/{key}: {what}"), ours);
        }
    };
    match &recorded["Check"] {
        Value::Object(services) => {
            for (service, theirs) in services {
                let ours = client.check(service).await;
                note(format!("Check {service}"), theirs.as_str().expect("a state"), ours);
            }
        }
        // The whole service was unknown.
        theirs => note("Check".into(), theirs.as_str().expect("a status"), client.check("").await),
    }
    if let Some(theirs) = recorded["List"].as_object() {
        let theirs: BTreeMap<_, _> = theirs.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or(""))).collect();
        let ours = match client.list().await {
            Ok(services) => format!("{services:?}"),
            Err(status) => spelled(&status),
        };
        note("List".into(), &format!("{theirs:?}"), ours);
    }
    if let Some(theirs) = recorded["Watch"].as_str() {
        note("Watch".into(), theirs, client.watch("").state().await);
    }
}

#[tokio::test]
async fn health_is_told_as_recorded() {
    let recorded = json(&golden("metrics/health.json"));
    let mut found = BTreeMap::new();
    let epp = Epp::start(&["127.0.0.11:8000"], &["--secure-serving=false"]);
    differing("health port", epp.health, &recorded["health_port"], &mut found).await;
    let without = &recorded["ext_proc_port_without_health_checking"];
    differing("ext-proc port without --health-checking", epp.grpc, without, &mut found).await;
    let checking = Epp::start(&["127.0.0.11:8000"], &["--secure-serving=false", "--health-checking"]);
    let with = &recorded["ext_proc_port_with_health_checking"];
    differing("ext-proc port with --health-checking", checking.grpc, with, &mut found).await;

    let folder = folder(CONFIG);
    write(folder.path(), "endpoints.yaml", "endpoints: []\n");
    let empty = Epp::start_in(folder, &["--secure-serving=false"]);
    let none = serde_json::json!({"Check": recorded["no_endpoints_in_file"]});
    differing("no endpoints", empty.health, &none, &mut found).await;
    settle("health/", &found);
}

/// Envoy probes the external processor by its full name; the chart probes `inference-extension`, which nobody registers.
#[tokio::test]
async fn both_ports_answer_what_envoy_and_the_chart_ask() {
    let epp = Epp::start(&["127.0.0.11:8000"], &["--secure-serving=false"]);
    let (mut picker, mut health) = (Client::connect(epp.grpc).await, Client::connect(epp.health).await);
    assert_eq!(picker.check(PICKER).await, "SERVING");
    assert_eq!(health.check("inference-extension").await, "SERVING");
    assert_eq!(picker.list().await.expect("a list").len(), 2);
    let unknown = picker.unary("/grpc.health.v1.Health/Guess", &pointsman_grpc::Message::default()).await;
    assert_eq!(unknown.expect_err("no such method").0, 12);
}

#[tokio::test]
async fn a_watch_tells_the_state_and_each_change_of_it_at_both_ports() {
    let epp = Epp::start(&["127.0.0.11:8000"], &["--secure-serving=false", "--drain-timeout=20s"]);
    let (mut picker, mut health) = (Client::connect(epp.grpc).await, Client::connect(epp.health).await);
    let mut watches = [picker.watch(PICKER), health.watch("readiness"), health.watch("liveness")];
    for watch in &mut watches {
        assert_eq!(watch.state().await, "SERVING");
    }
    epp.process.signal("-TERM");
    for watch in &mut watches[..2] {
        assert_eq!(watch.state().await, "NOT_SERVING");
    }
    assert_eq!(health.check("liveness").await, "SERVING", "who drains must not be restarted");
}
