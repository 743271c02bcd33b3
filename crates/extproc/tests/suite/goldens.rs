//! What the Go picker answered (`testdata/fixtures/golden`), replayed through the transport and everything below it.
//!
//! `differences.json` in the folder above lists where we answer otherwise on purpose, with the `Wart:` that asks for it, and which recordings need what is not
//! there yet, with what brings it. The list in `docs/migrate-from-llm-d.md` is made from it.
//!
//! Three ways of ours hold for every recording, and are checked as rules rather than listed one by one:
//!
//! * headers that came with a request are not set again (`--compat set-all-headers` does, and is replayed too), and control headers are removed;
//! * response bodies pass at once instead of being held to their end: bytes and the end are compared, not the cuts;
//! * where equals are drawn among, the draw is repeated until it falls as recorded, since what follows depends on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::messages;
use crate::process::{Answered, Process};
use crate::recordings::{self, golden};
use pointsman_extproc::Compat;
use serde_json::{Map, Value, json};

/// How often a recording is replayed for its draws to fall as recorded.
const DRAWS: usize = 300;
/// Bytes of a body that a recording keeps whole.
const KEPT: usize = 4096;

/// One thing that was asked and answered.
struct Recorded<'a> {
    /// Answers, with the number of messages that had been sent by then.
    received: Vec<(usize, &'a Value)>,
    end: Option<&'a Value>,
    requests: Vec<&'a Value>,
}

/// Why a recording does not hold.
#[derive(Debug)]
enum Miss {
    /// An endpoint among equals was drawn that was not drawn then.
    Draw,
    /// It is answered otherwise.
    Differs(String),
}

fn differs<T>(what: impl Into<String>) -> Result<T, Miss> {
    Err(Miss::Differs(what.into()))
}

/// Goes on after a difference, which is noted.
fn noted(result: Result<(), Miss>, notes: &mut Vec<String>) -> Result<(), Miss> {
    match result {
        Err(Miss::Differs(what)) => notes.push(what),
        Err(Miss::Draw) => return Err(Miss::Draw),
        Ok(()) => {}
    }
    Ok(())
}

/// Name, value.
fn pairs(list: &Value) -> Vec<(&str, &str)> {
    list.as_array().into_iter().flatten().map(|h| (h[0].as_str().unwrap_or(""), h[1].as_str().unwrap_or(""))).collect()
}

fn same_uuid(theirs: &str, ours: &str) -> bool {
    theirs == "<uuid>" && ours.len() == 36 || theirs == ours
}

/// Compares header mutations. `came`: the headers that the message answered came with; `all`: they are set again.
fn compare_headers(theirs: &Value, ours: &Value, came: &Value, all: bool) -> Result<(), Miss> {
    let (theirs_set, ours_set) = (pairs(&theirs["set_headers"]), pairs(&ours["set_headers"]));
    let came: BTreeSet<String> = pairs(came).iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    for (name, value) in &ours_set {
        if !theirs_set.iter().any(|(n, v)| n == name && same_uuid(v, value)) {
            let made = *name == "x-request-id" && value.len() == 36;
            return differs(format!("sets {name}: {}", if made { "<uuid>" } else { value }));
        }
    }
    for (name, value) in &theirs_set {
        let told = ours_set.iter().any(|(n, v)| n == name && same_uuid(value, v));
        let again = came.contains(&name.to_ascii_lowercase());
        if !told && (all || !again) {
            return differs(format!("does not set {name}: {value}"));
        }
        let ours = *name == "x-request-id" || pointsman_core::headers::is_control(name);
        if told && !all && again && !theirs_set[..2].contains(&(name, value)) && !ours {
            return differs(format!("sets {name} again"));
        }
    }
    let removed: BTreeSet<&str> = ours["removed"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let control: BTreeSet<&str> = came
        .iter()
        .map(String::as_str)
        .filter(|n| pointsman_core::headers::is_control(n) && !ours_set.iter().any(|(set, _)| set == n))
        .collect();
    let request = ours["type"] == "request_headers";
    if removed != if all || !request { BTreeSet::new() } else { control } {
        return differs(format!("removes {removed:?}"));
    }
    Ok(())
}

fn compare_metadata(theirs: &Value, ours: &Value, among: &Value) -> Result<(), Miss> {
    let (theirs, ours) = (&theirs["envoy.lb"], &ours["envoy.lb"]);
    let scores = |lb: &Value| lb["x-gateway-destination-endpoint-scores"].as_object().cloned().unwrap_or_else(Map::new);
    let (theirs_scores, ours_scores) = (scores(theirs), scores(ours));
    if theirs_scores.keys().ne(ours_scores.keys()) {
        let list = |scores: &Map<String, Value>| scores.keys().cloned().collect::<Vec<_>>().join(", ");
        return differs(format!("scored {}, recorded {}", list(&ours_scores), list(&theirs_scores)));
    }
    for (endpoint, score) in &theirs_scores {
        let (theirs, ours) = (score.as_f64().unwrap_or(f64::NAN), ours_scores[endpoint].as_f64().unwrap_or(f64::NAN));
        if (theirs - ours).abs() > 1e-9 {
            return differs(format!("{endpoint} scored {ours}, recorded {theirs}"));
        }
    }
    let destination = |lb: &Value| lb["x-gateway-destination-endpoint"].as_str().unwrap_or_default().to_owned();
    let (theirs, ours) = (destination(theirs), destination(ours));
    if theirs == ours {
        return Ok(());
    }
    if among.as_array().is_some_and(|a| a.iter().any(|e| *e == ours) && a.iter().any(|e| *e == theirs)) {
        return Err(Miss::Draw);
    }
    differs(format!("went to {ours}, recorded {theirs}"))
}

/// The bytes of a recorded body, or what is known of them.
fn compare_body(theirs: &[&Value], ours: &[&Value]) -> Result<(), Miss> {
    let ours_bytes: Vec<u8> = ours
        .iter()
        .flat_map(|m| m["bytes"].as_array().into_iter().flatten())
        .map(|b| b.as_u64().unwrap_or(0) as u8)
        .collect();
    let length: u64 = theirs.iter().map(|m| m["body_len"].as_u64().unwrap_or(0)).sum();
    if theirs.iter().any(|m| m["type"] == "request_body") && theirs.len() != ours.len() {
        return differs(format!("{} body messages, recorded {}", ours.len(), theirs.len()));
    }
    if length != ours_bytes.len() as u64 {
        return differs(format!("{} body bytes, recorded {length}", ours_bytes.len()));
    }
    if length as usize <= KEPT {
        let theirs_bytes: Vec<u8> = theirs.iter().flat_map(|m| messages::bytes_of(&m["body"])).collect();
        if theirs_bytes != ours_bytes {
            return differs(format!("body is {}", String::from_utf8_lossy(&ours_bytes)));
        }
    }
    let ends = |list: &[&Value]| list.last().map(|m| m["end_of_stream"].as_bool().unwrap_or(false));
    if ends(theirs) != ends(ours) || ours.iter().rev().skip(1).any(|m| m["end_of_stream"] == true) {
        return differs("the body ends otherwise");
    }
    Ok(())
}

/// Splits answers into runs: every message but those of bodies alone, body messages of one direction together.
fn runs<'a>(messages: &[(usize, &'a Value)]) -> Vec<(usize, Vec<&'a Value>)> {
    let mut runs: Vec<(usize, Vec<&Value>)> = Vec::new();
    for (sent, message) in messages {
        let body = message["type"].as_str().is_some_and(|t| t.ends_with("_body"));
        match runs.last_mut() {
            Some((_, run)) if body && run[0]["type"] == message["type"] => run.push(message),
            _ => runs.push((*sent, vec![message])),
        }
    }
    runs
}

fn compare(recorded: &Recorded<'_>, ours: &Answered, all: bool) -> Result<(), Miss> {
    let ours_list: Vec<(usize, &Value)> = ours.received.iter().map(|(sent, m)| (*sent, m)).collect();
    let (theirs_runs, ours_runs) = (runs(&recorded.received), runs(&ours_list));
    let kinds = |runs: &[(usize, Vec<&Value>)]| -> Vec<String> {
        runs.iter().map(|(_, run)| run[0]["type"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (theirs_kinds, ours_kinds) = (kinds(&theirs_runs), kinds(&ours_runs));
    if theirs_kinds != ours_kinds {
        return differs(format!("answered {}, recorded {}", ours_kinds.join(" "), theirs_kinds.join(" ")));
    }
    let mut notes = Vec::new();
    for ((theirs_at, theirs), (ours_at, ours)) in theirs_runs.iter().zip(&ours_runs) {
        let kind = theirs[0]["type"].as_str().unwrap_or_default();
        if kind != "response_body" && theirs_at != ours_at {
            notes.push(format!("{kind} answered after {ours_at} messages, recorded {theirs_at}"));
        }
        match kind {
            "immediate_response" => {
                for key in ["status", "body", "set_headers"] {
                    if theirs[0][key] != ours[0][key] {
                        notes.push(format!("{key} {}", ours[0][key]));
                    }
                }
            }
            "request_headers" | "response_headers" => {
                let came =
                    recorded.requests.iter().rev().find(|m| m["type"] == kind).map_or(&Value::Null, |m| &m["headers"]);
                let metadata = &theirs[0]["dynamic_metadata"];
                let among = &theirs[0]["destination_is_random_among"];
                noted(compare_metadata(metadata, &ours[0]["dynamic_metadata"], among), &mut notes)?;
                noted(compare_headers(theirs[0], ours[0], came, all), &mut notes)?;
                let clears = |m: &Value| m["clear_route_cache"].as_bool().unwrap_or_default();
                if clears(theirs[0]) != clears(ours[0]) {
                    notes.push("clear_route_cache".to_owned());
                }
            }
            "request_body" | "response_body" => noted(compare_body(theirs, ours), &mut notes)?,
            _ => {}
        }
        if kind.starts_with("response_") {
            let told = |run: &[&Value]| run.iter().rev().find_map(|m| m.get("dynamic_metadata")).cloned();
            let (theirs, ours) = (told(theirs), told(ours));
            if theirs != ours {
                notes.push(format!("{kind} with the metadata {}", ours.unwrap_or_default()));
            }
        }
    }
    noted(compare_end(recorded, ours), &mut notes)?;
    if notes.is_empty() { Ok(()) } else { differs(notes.join("; ")) }
}

fn compare_end(recorded: &Recorded<'_>, ours: &Answered) -> Result<(), Miss> {
    let by_server = recorded.end.filter(|e| e["ended_by"] == "server");
    match (by_server, &ours.end) {
        (None, None) => Ok(()),
        (None, Some((0, _))) if recorded.end.is_none() => Ok(()),
        (None, Some((code, message))) => differs(format!("ends the stream with {code} {message}")),
        (Some(_), None) => differs("does not end the stream"),
        (Some(theirs), Some((code, message))) => {
            let name = match code {
                0 => "OK",
                8 => "RESOURCE_EXHAUSTED",
                13 => "INTERNAL",
                _ => "UNKNOWN",
            };
            if theirs["grpc_code"] != name || theirs["grpc_message"] != **message {
                return differs(format!("ends the stream with {name} {message}"));
            }
            Ok(())
        }
    }
}

/// Gives recorded endpoints other addresses, where only which of them came first was chance.
fn renamed(value: &Value, names: &Value) -> Value {
    match value {
        Value::String(text) => names[text].as_str().unwrap_or(text).into(),
        Value::Array(list) => list.iter().map(|v| renamed(v, names)).collect(),
        Value::Object(map) => {
            let name = |key: &String| names[key].as_str().unwrap_or(key).to_owned();
            map.iter().map(|(k, v)| (name(k), if k == "endpoints" { v.clone() } else { renamed(v, names) })).collect()
        }
        other => other.clone(),
    }
}

/// What came of one replay of a file.
#[derive(Default)]
struct Replay {
    found: BTreeMap<String, String>,
    pending: bool,
    /// A draw fell otherwise: what follows means nothing.
    drawn: bool,
}

fn replay(stem: &str, recording: &Value, compat: &[Compat]) -> Replay {
    let all = compat.contains(&Compat::SetAllHeaders);
    let folder = stem.split('/').next().unwrap_or_default();
    let mut outcome = Replay::default();
    let Some(mut process) = Process::start(folder, &recording["setup"], compat) else {
        outcome.pending = true;
        return outcome;
    };
    let whole = [recording.clone()];
    let list = ["exchanges", "events"].iter().find_map(|k| recording[*k].as_array().map(Vec::as_slice));
    for unit in list.unwrap_or(&whole) {
        let name = unit["name"].as_str().or_else(|| unit["event"].as_str()).unwrap_or_default().to_owned();
        process.engines(&unit["engines"]);
        if let Some(id) = name.strip_suffix(" completes") {
            process.complete(id);
            continue;
        }
        if let Some(id) = name.strip_suffix(" is cancelled") {
            process.cancel(id);
            continue;
        }
        if let Some(id) = name.strip_suffix("'s first response chunk") {
            let headers = json!([[":status", "200"], ["content-type", "text/event-stream"]]);
            process.send(id, &json!({"type": "response_headers", "headers": headers, "end_of_stream": false}));
            process.send(id, &json!({"type": "response_body", "body": "data: {}\n\n", "end_of_stream": false}));
            continue;
        }
        let steps: Vec<Value> = match (unit["exchange"].as_array(), unit["result"].as_object()) {
            (Some(steps), _) => steps.clone(),
            (None, Some(result)) => {
                let sent = result["sent"].as_array().into_iter().flatten().map(|m| json!({"send": m}));
                let received = result["received"].as_array().into_iter().flatten().map(|m| json!({"recv": m}));
                sent.chain(received).collect()
            }
            (None, None) => {
                let gauges = unit["metrics"].as_array().unwrap_or_else(|| panic!("{stem}: {name}: of no known shape"));
                if name == "all gone" {
                    process.cancel_all();
                }
                gauges_hold(&process.page(), gauges);
                continue;
            }
        };
        let mut sent = 0;
        let mut recorded = Recorded { received: Vec::new(), end: unit.get("end"), requests: Vec::new() };
        for step in &steps {
            if let Some(message) = step.get("send") {
                sent += 1;
                recorded.requests.push(message);
            }
            if let Some(message) = step.get("recv") {
                let times = step["times"].as_u64().unwrap_or(1);
                (0..times).for_each(|_| recorded.received.push((sent, message)));
            }
        }
        let id = recorded
            .requests
            .first()
            .and_then(|m| pairs(&m["headers"]).into_iter().find(|(n, _)| *n == "x-request-id"));
        let ours = process.exchange(id.map_or("", |(_, id)| id), &steps);
        match compare(&recorded, &ours, all) {
            Ok(()) => {}
            Err(Miss::Draw) => {
                outcome.drawn = true;
                return outcome;
            }
            Err(Miss::Differs(what)) => {
                outcome.found.insert(format!("{stem}: {name}"), what);
            }
        }
        // Each exchange was over before the next began; in-flight recordings hold theirs open.
        if unit["exchange"].is_array() && list.is_some() {
            process.complete_all();
        }
    }
    if let Ok(recorded) = std::fs::read_to_string(golden().join(format!("{stem}-metrics.prom"))) {
        counters_hold(&process.page(), &recorded);
    }
    outcome
}

/// Recorded counters are on our page too.
fn counters_hold(page: &str, recorded: &str) {
    let series = |line: &str| -> Option<(String, BTreeSet<String>, String)> {
        let (name, rest) = line.split_once('{')?;
        let (labels, value) = rest.split_once("} ")?;
        Some((name.to_owned(), labels.split(',').map(str::to_owned).collect(), value.to_owned()))
    };
    let ours: Vec<_> = page.lines().filter_map(series).collect();
    for line in recorded.lines() {
        let Some(recorded) = series(line) else { continue };
        assert!(ours.contains(&recorded), "{line}");
    }
}

/// Recorded in-flight gauges are on our page too. Token counts are left to the scores, which depend on them.
fn gauges_hold(page: &str, recorded: &[Value]) {
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

fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(golden().join(folder)).expect("golden data");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "json"));
    files.sort();
    files
}

/// Replays every folder, and compares what differs with the list.
fn holds(compat: &[Compat], list: &str) {
    let expected = recordings::json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/differences.json"));
    let (mut found, mut pending) = (BTreeMap::new(), BTreeSet::new());
    let mut replayed = 0;
    for folder in ["wire", "parsers", "headers", "scheduling", "prefix-cache", "in-flight", "profiles"] {
        for file in files(folder) {
            let stem = format!("{folder}/{}", file.file_stem().expect("a name").to_string_lossy());
            let recording = renamed(&recordings::json(&file), &expected["renamed"][&stem]);
            let mut outcome = Replay { drawn: true, ..Replay::default() };
            for _ in 0..DRAWS {
                outcome = replay(&stem, &recording, compat);
                if !outcome.drawn {
                    break;
                }
            }
            assert!(!outcome.drawn, "{stem}: no draw of {DRAWS} fell as recorded");
            replayed += 1;
            found.append(&mut outcome.found);
            if outcome.pending {
                pending.insert(stem);
            }
        }
    }
    let on_purpose: BTreeMap<&String, &Value> =
        ["differences", list].iter().flat_map(|key| expected[*key].as_object().into_iter().flatten()).collect();
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
    for key in on_purpose.keys().filter(|k| !found.contains_key(**k)) {
        let _ = writeln!(wrong, "{key}: no longer differs; take it from the list");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    let known: BTreeSet<String> =
        expected["pending"].as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
    assert_eq!(pending, known, "recordings that need plugins of later releases");
    assert!(replayed > 150, "only {replayed} recordings were there");
}

#[test]
fn requests_are_answered_as_recorded_or_differ_on_purpose() {
    holds(&[], "differences by default");
}

#[test]
fn with_every_old_way_kept_only_what_has_no_switch_differs() {
    holds(Compat::ALL, "differences with every old way");
}
