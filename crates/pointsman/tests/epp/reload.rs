//! Changes of the endpoints file while the process runs (request-lifecycle Part 5).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json as object};

use crate::support::differences::settle;
use crate::support::grpc::Client;
use crate::support::process::{Epp, folder, write};
use crate::support::{golden, json};

use super::request::scores;

/// A change is seen after a look and a pause in which the file must not move; this is several of both.
const SEEN: Duration = Duration::from_secs(10);
/// What has not changed by then will not.
const UNSEEN: Duration = Duration::from_millis(1600);

fn list(names: &str) -> String {
    let entry =
        |name: char| format!("- {{name: pod-{name}, address: 127.0.0.1{}, port: \"8000\"}}\n", name as u8 - b'a' + 1);
    format!("endpoints:\n{}", names.chars().map(entry).collect::<String>())
}

/// Renamed into place, as an editor or a sidecar does it.
fn rename(folder: &Path, text: &str) {
    write(folder, "next.yaml", text);
    std::fs::rename(folder.join("next.yaml"), folder.join("endpoints.yaml")).expect("renamed");
}

/// Does what the recording says was done.
fn change(folder: &Path, event: &str) {
    match event {
        "start: a, b" => {}
        "written in place: a, b, c" | "written in place after that: a, b, c" => {
            write(folder, "endpoints.yaml", &list("abc"))
        }
        "in place: b, c" => write(folder, "endpoints.yaml", &list("bc")),
        "replaced by rename: a and a bad d: the valid part is applied" => {
            rename(folder, &format!("{}- {{name: pod-d, address: nowhere, port: \"8000\"}}\n", list("a")));
        }
        "renamed in: not YAML" => rename(folder, "endpoints: [\n"),
        "renamed in: port as a number" => rename(folder, &list("b").replace('"', "")),
        "renamed in: c, d" => rename(folder, &list("cd")),
        "written in place after a rename: a" => write(folder, "endpoints.yaml", &list("a")),
        "renamed in: a, b" => rename(folder, &list("ab")),
        "renamed in: a label value `yes` (a YAML 1.1 boolean): nothing changes" => {
            rename(folder, &list("c").replace("\"8000\"", "\"8000\", labels: {spot: yes}"));
        }
        "file removed" => std::fs::remove_file(folder.join("endpoints.yaml")).expect("removed"),
        "file created again: a, b" => write(folder, "endpoints.yaml", &list("ab")),
        "empty list" => write(folder, "endpoints.yaml", "endpoints: []\n"),
        other => panic!("nobody knows how to do: {other}"),
    }
}

async fn candidates(client: &mut Client) -> Value {
    scores(client).await.keys().cloned().collect()
}

/// The candidates once they are as `wanted`, or as they stay.
async fn settled(client: &mut Client, wanted: &Value, before: &Value) -> Value {
    let began = Instant::now();
    let patience = if wanted == before { UNSEEN } else { SEEN };
    loop {
        let now = candidates(client).await;
        let waited = began.elapsed();
        if waited >= patience || now == *wanted && wanted != before {
            return now;
        }
        // What was seen to change otherwise is given time to settle.
        if now != *before && waited >= UNSEEN {
            return now;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn the_endpoints_file_is_followed_through_every_recorded_change() {
    let recorded = json(&golden("discovery/file-discovery-reload.json"));
    let config = golden("discovery").join(recorded["setup"]["config"].as_str().expect("a document"));
    let folder = folder(&std::fs::read_to_string(config).expect("the document"));
    write(folder.path(), "endpoints.yaml", &list("ab"));
    // Nobody listens at the recorded addresses.
    let flags = ["--secure-serving=false", "--emit-endpoint-scores", "--engine-health-checks=false"];
    let epp = Epp::start_in(folder, &flags);
    let mut client = Client::connect(epp.grpc).await;
    let mut found = BTreeMap::new();
    let mut before = object!([]);
    for step in recorded["events"].as_array().expect("events") {
        let event = step["event"].as_str().expect("an event");
        change(epp.folder.path(), event);
        let ours = settled(&mut client, &step["candidates"], &before).await;
        if ours != step["candidates"] {
            let names: Vec<&str> = ours.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            found.insert(format!("discovery/{event}"), format!("candidates {}", names.join(" ")));
        }
        before = ours;
    }
    settle("discovery/", &found);
}

#[test]
fn a_bad_entry_at_the_start_is_told_with_its_place_and_nothing_starts() {
    use crate::support::process::{CONFIG, FREE_PORTS, command, pointsman, run};
    let folder = folder(CONFIG);
    write(folder.path(), "endpoints.yaml", &format!("{}- {{name: bad, address: 10.0.0.1, port: \"0\"}}\n", list("a")));
    let mut asked = command(pointsman(), folder.path());
    asked.arg("epp").args(FREE_PORTS).args(["--pool-name=p", "--config-file=config.yaml"]);
    let ended = run(asked);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("endpoints.yaml") && ended.stderr.contains("port"), "{}", ended.stderr);
}
