//! What the Go picker answered (`testdata/fixtures/golden`), replayed through the router: destination or tie, and weighted sums within 1e-9.
//!
//! `golden_differences.json` beside this file lists where we answer otherwise on purpose, with the `Wart:` that asks for it, and which
//! recordings need plugins that are not there yet.

mod support;

use pointsman_config::Faults;
use pointsman_core::Nanos;
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use pointsman_router::{Pool, Routed};
use pointsman_scheduling::Termination;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use support::{engines, golden, head_of, json, pool, text_of};

/// One process of the recording.
struct Process {
    pool: Arc<Pool>,
    open: BTreeMap<String, Routed>,
}

impl Process {
    /// `None`: the configuration needs plugins that are not there yet.
    fn start(folder: &str, setup: &Value) -> Option<Self> {
        Some(Self { pool: pool(folder, setup)?, open: BTreeMap::new() })
    }

    /// Sends one recorded request; returns what was decided, as the recording spells it.
    fn request(&mut self, sent: &[&Value], recorded: &Answer) -> Answer {
        let request_head = head_of(&self.pool, sent);
        let id = request_head.header("x-request-id").unwrap_or_default().to_owned();
        let mut reading = self.pool.begin(request_head);
        for body in sent.iter().filter(|m| m["type"] == "request_body") {
            reading.push(text_of(&body["body"]).into_bytes().into());
        }
        match reading.decide() {
            Err(refused) => Answer { status: Some(refused.refusal.code.status()), ..Answer::default() },
            Ok(mut routed) => {
                let record = serde_json::to_value(&**routed.decision()).expect("a record is JSON");
                let destinations: Vec<String> = routed.destinations().map(|e| e.host_port().to_owned()).collect();
                let profile = &record["profiles"][0];
                let mut scores = BTreeMap::new();
                let mut ties = BTreeSet::new();
                for c in profile["candidates"].as_array().into_iter().flatten() {
                    let address = c["address"].as_str().unwrap_or_default().to_owned();
                    if profile["ties"].as_array().is_some_and(|t| t.contains(&c["endpoint"])) {
                        ties.insert(address.clone());
                    }
                    if let Some(total) = c["total"].as_f64() {
                        scores.insert(address, total);
                    }
                }
                // What follows depends on where a tie went: let it go where it went in the recording.
                while ties.contains(&recorded.destination) && routed.endpoint().host_port() != recorded.destination {
                    assert!(routed.retry("the recording went elsewhere"), "the recorded endpoint is among the tied");
                }
                routed.dispatched();
                self.open.insert(id, routed);
                Answer { status: None, destination: destinations.join(","), scores, ties }
            }
        }
    }

    /// Recorded in-flight gauges are on our page too. Token counts are left to the scores, which depend on them.
    fn gauges_hold(&self, recorded: &[Value]) {
        let page = self.pool.metrics.render(&self.pool.fleet.snapshot(), self.pool.clock.now(), false);
        let series = |line: &str| -> Option<(BTreeSet<String>, String)> {
            let (labels, value) = line.strip_prefix("llm_d_epp_inflight_requests{")?.split_once("} ")?;
            Some((labels.split(',').map(str::to_owned).collect(), value.to_owned()))
        };
        let ours: BTreeMap<BTreeSet<String>, String> = page.lines().filter_map(series).collect();
        for line in recorded.iter().filter_map(Value::as_str) {
            if let Some((labels, value)) = series(line) {
                assert_eq!(ours.get(&labels), Some(&value), "{line}");
            }
        }
    }

    /// The client closes its side, or the response ends.
    fn ended(&mut self, id: &str, how: Termination) {
        if let Some(mut routed) = self.open.remove(id) {
            if how == Termination::Natural {
                routed.response_head(200, Some("application/json"), None);
                routed.response_chunk(b"{}");
            }
            routed.finish(how, None);
        }
    }
}

/// What was decided.
#[derive(Debug, Default, PartialEq)]
struct Answer {
    status: Option<u16>,
    destination: String,
    scores: BTreeMap<String, f64>,
    ties: BTreeSet<String>,
}

/// What the recording says was decided.
fn recorded(received: &[&Value]) -> Answer {
    let refusal = received.iter().find(|m| m["type"] == "immediate_response");
    if let Some(refusal) = refusal {
        return Answer { status: refusal["status"].as_u64().map(|s| s as u16), ..Answer::default() };
    }
    let head = received.iter().find(|m| m["type"] == "request_headers").expect("an answer");
    let lb = &head["dynamic_metadata"]["envoy.lb"];
    let scores = lb["x-gateway-destination-endpoint-scores"].as_object().cloned().unwrap_or_else(Map::new);
    let among = head["destination_is_random_among"].as_array().into_iter().flatten();
    Answer {
        status: None,
        destination: lb["x-gateway-destination-endpoint"].as_str().unwrap_or_default().to_owned(),
        scores: scores.iter().map(|(k, v)| (k.clone(), v.as_f64().expect("a number"))).collect(),
        ties: among.filter_map(|v| v.as_str().map(str::to_owned)).collect(),
    }
}

/// The first disagreement, if there is one.
fn disagreement(ours: &Answer, theirs: &Answer) -> Option<String> {
    if ours.status != theirs.status {
        return Some(format!("status {:?}, recorded {:?}", ours.status, theirs.status));
    }
    if ours.scores.keys().ne(theirs.scores.keys()) {
        return Some(format!("scored {:?}, recorded {:?}", ours.scores.keys(), theirs.scores.keys()));
    }
    for (endpoint, theirs) in &theirs.scores {
        let ours = ours.scores[endpoint];
        if (ours - theirs).abs() > 1e-9 {
            return Some(format!("{endpoint} scored {ours}, recorded {theirs}"));
        }
    }
    if theirs.ties.is_empty() {
        (ours.destination != theirs.destination)
            .then(|| format!("went to {}, recorded {}", ours.destination, theirs.destination))
    } else if ours.ties != theirs.ties {
        Some(format!("tie among {:?}, recorded {:?}", ours.ties, theirs.ties))
    } else {
        (!theirs.ties.contains(&ours.destination)).then(|| format!("{} is not among the tied", ours.destination))
    }
}

/// Gives the endpoints of an answer other addresses, where only which of them came first was chance.
fn renamed(mut answer: Answer, names: &Value) -> Answer {
    let name = |address: &str| names[address].as_str().unwrap_or(address).to_owned();
    answer.destination = name(&answer.destination);
    answer.scores = answer.scores.iter().map(|(k, v)| (name(k), *v)).collect();
    answer
}

/// Compares every request of a recording. Keys are `file: request`.
fn replay(
    folder: &str,
    file: &Path,
    names: &Value,
    found: &mut BTreeMap<String, String>,
    pending: &mut BTreeSet<String>,
) {
    let recording = json(file);
    let stem = format!("{folder}/{}", file.file_stem().expect("a name").to_string_lossy());
    let Some(mut process) = Process::start(folder, &recording["setup"]) else {
        pending.insert(stem);
        return;
    };
    let whole = [recording.clone()];
    let list = ["exchanges", "events"].iter().find_map(|k| recording[*k].as_array().map(Vec::as_slice));
    for unit in list.unwrap_or(&whole) {
        let name = unit["name"].as_str().or_else(|| unit["event"].as_str()).unwrap_or_default().to_owned();
        engines(&process.pool, &unit["engines"]);
        if let Some((id, what)) =
            name.split_once(' ').filter(|(_, w)| w.starts_with("completes") || w.starts_with("is cancelled"))
        {
            let how = if what == "completes" { Termination::Natural } else { Termination::ClientDisconnect };
            process.ended(id, how);
            continue;
        }
        if let Some(id) = name.strip_suffix("'s first response chunk") {
            let routed = process.open.get_mut(id).expect("it is open");
            routed.response_head(200, Some("text/event-stream"), None);
            routed.response_chunk(b"data: {}\n\n");
            continue;
        }
        let exchange = unit["exchange"].as_array();
        let (sent, received): (Vec<&Value>, Vec<&Value>) = match exchange {
            Some(messages) => {
                let of = |key: &str| messages.iter().filter_map(|m| m.get(key)).collect();
                (of("send"), of("recv"))
            }
            None if unit["result"].is_object() => {
                let of = |key: &str| unit["result"][key].as_array().into_iter().flatten().collect();
                (of("sent"), of("received"))
            }
            None => {
                let gauges = unit["metrics"].as_array().unwrap_or_else(|| panic!("{stem}: {name}: of no known shape"));
                if name == "all gone" {
                    process.open.clear();
                }
                process.gauges_hold(gauges);
                continue;
            }
        };
        let theirs = renamed(recorded(&received), &names[&stem]);
        let ours = process.request(&sent, &theirs);
        if exchange.is_some() {
            // Each exchange was over before the next began; in-flight recordings hold theirs open.
            let ids: Vec<String> = process.open.keys().cloned().collect();
            ids.iter().for_each(|id| process.ended(id, Termination::Natural));
        }
        if let Some(what) = disagreement(&ours, &theirs) {
            found.insert(format!("{stem}: {name}"), what);
        }
    }
}

#[test]
fn the_scheduler_decides_as_recorded_or_differs_on_purpose() {
    let (mut found, mut pending) = (BTreeMap::new(), BTreeSet::new());
    let expected = json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_differences.json"));
    for folder in ["scheduling", "prefix-cache", "in-flight"] {
        let mut files: Vec<PathBuf> = std::fs::read_dir(golden().join(folder))
            .expect("golden data")
            .map(|e| e.expect("an entry").path())
            .collect();
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
            replay(folder, file, &expected["renamed"], &mut found, &mut pending);
        }
    }
    let on_purpose = expected["differences"].as_object().expect("differences");
    let known: BTreeSet<String> =
        expected["pending"].as_array().expect("pending").iter().filter_map(|v| v.as_str().map(str::to_owned)).collect();
    let mut wrong = String::new();
    for (key, what) in &found {
        match on_purpose.get(key) {
            Some(entry) if entry["ours"].as_str() == Some(what) => {}
            Some(entry) => {
                let _ = writeln!(wrong, "{key}: {what}\n    on purpose would be: {}", entry["ours"]);
            }
            None => {
                let _ = writeln!(wrong, "{key}: {what}");
            }
        }
    }
    for key in on_purpose.keys().filter(|k| !found.contains_key(*k)) {
        let _ = writeln!(wrong, "{key}: no longer differs; take it from the list");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(pending, known, "recordings that need plugins of later releases");
}

#[test]
fn engine_pages_are_read_as_recorded_or_differ_on_purpose() {
    let expected = json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden_differences.json"));
    let on_purpose = expected["pages"].as_object().expect("pages");
    let mut wrong = String::new();
    let mut differing = BTreeSet::new();
    let mut pages = 0;
    for entry in std::fs::read_dir(golden().join("engine-metrics")).expect("golden data") {
        let file = entry.expect("an entry").path();
        if file.extension().is_none_or(|e| e != "json") {
            continue;
        }
        let recording = json(&file);
        let config =
            golden().join("engine-metrics").join(recording["setup"]["config"].as_str().expect("a configuration"));
        let options = CompileOptions { allow_experimental: true, default: DefaultProfile::Epp, states: Arc::default() };
        let text = std::fs::read(config).expect("the configuration is there");
        let compiled = compile(&text, &options, &mut Faults::new()).expect("the configuration is good");
        let extractor = &compiled.sources[0].extractors[0];
        let labels = recording["setup"]["labels"]["pod-a"].as_object().into_iter().flatten();
        let labels: pointsman_fleet::Labels = labels.map(|(k, v)| (k.as_str(), v.as_str().expect("text"))).collect();
        for page in recording["pages"].as_array().expect("pages") {
            pages += 1;
            let read =
                extractor.extract(extractor.label(&labels), page["page"].as_str().expect("text").as_bytes()).scraped;
            let engine = pointsman_fleet::EngineState::default();
            engine.apply(Nanos(5), &read);
            let view = engine.view();
            let ours = [
                view.known_waiting().then_some(view.waiting),
                view.known_running().then_some(view.running),
                view.known_kv().then_some((view.kv_usage * 100.0).round() / 100.0),
            ];
            let theirs =
                ["waiting", "running", "kv"].map(|k| page[k].as_str().map(|v| v.parse::<f64>().expect("a number")));
            let key = format!(
                "{}: {}",
                file.file_stem().expect("a name").to_string_lossy(),
                page["name"].as_str().expect("a name")
            );
            if ours != theirs {
                let what = format!("{ours:?}");
                if on_purpose.get(&key).and_then(|e| e["ours"].as_str()) != Some(&what) {
                    let _ = writeln!(wrong, "{key}: {what}, recorded {theirs:?}");
                }
                differing.insert(key);
            }
        }
    }
    for key in on_purpose.keys().filter(|k| !differing.contains(*k)) {
        let _ = writeln!(wrong, "{key}: no longer differs; take it from the list");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(pages > 20, "only {pages} pages were there");
}
