//! The metrics page, against those of the Go picker (`testdata/fixtures/golden/metrics`): its families, types and label sets, and what each kind of
//! request changes.
//!
//! `metrics_differences.json` beside this file lists where we count otherwise on purpose, with the `Wart:` that asks for it.

mod support;

use pointsman_core::{Clock, ManualClock, Nanos};
use pointsman_router::metrics::StreamMetrics;
use pointsman_router::{Pool, PoolOptions};
use pointsman_scheduling::Termination;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::{golden, head_of, json as json_file, pool_with, text_of};

/// A process of the recording, with a clock that this test moves.
struct Process {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
    streams: StreamMetrics,
}

impl Process {
    fn start(recording: &Value) -> Self {
        let mut setup = recording["setup"].clone();
        setup["endpoints"] = json!([
            {"name": "pod-a", "namespace": "default", "address": "127.0.0.11", "port": "8000"},
            {"name": "pod-b", "namespace": "default", "address": "127.0.0.12", "port": "8000"},
        ]);
        let clock = Arc::new(ManualClock::at(Nanos(1_000_000_000)));
        let options = PoolOptions { clock: clock.clone(), ..PoolOptions::default() };
        let pool = pool_with("metrics", &setup, options).expect("all its plugins are there");
        let streams = StreamMetrics::register(&pool.metrics, Arc::clone(&pool.clock));
        Self { pool, clock, streams }
    }

    fn page(&self) -> String {
        self.pool.metrics.render(&self.pool.fleet.snapshot(), self.clock.now(), false)
    }

    /// Sends what the proxy sent, a millisecond between two messages.
    fn replay(&self, sent: &[&Value]) {
        let stream = self.streams.opened();
        let of = |kind: &'static str| sent.iter().filter(move |m| m["type"] == kind);
        let mut reading = self.pool.begin(head_of(&self.pool, sent));
        for body in of("request_body") {
            self.clock.advance(Duration::from_millis(1));
            reading.push(text_of(&body["body"]).into_bytes().into());
        }
        let Ok(mut routed) = reading.decide() else { return stream.closed(0) };
        routed.dispatched();
        for head in of("response_headers") {
            self.clock.advance(Duration::from_millis(1));
            let value = |name: &str| {
                let headers = head["headers"].as_array().into_iter().flatten();
                headers.clone().find(|h| h[0] == name).and_then(|h| h[1].as_str())
            };
            let status = value(":status").and_then(|s| s.parse().ok()).expect("a status");
            routed.response_head(status, value("content-type"), None);
        }
        for chunk in of("response_body") {
            self.clock.advance(Duration::from_millis(1));
            routed.response_chunk(text_of(&chunk["body"]).as_bytes());
        }
        if sent.iter().any(|m| m["client"] == "cancels the stream") {
            drop(routed);
            return;
        }
        routed.finish(Termination::Natural, None);
        stream.closed(0);
    }
}

/// A family of a page.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    help: String,
    /// Names of labels, `le` left out, of each series.
    labels: BTreeSet<BTreeSet<String>>,
    bounds: BTreeSet<String>,
}

type Series = BTreeMap<(String, BTreeMap<String, String>), f64>;

fn labels_of(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split("\",").filter_map(|pair| pair.split_once("=\""));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned())).collect()
}

fn series_of(line: &str) -> (String, BTreeMap<String, String>) {
    match line.split_once('{') {
        Some((name, labels)) => (name.to_owned(), labels_of(labels.trim_end_matches('}'))),
        None => (line.to_owned(), BTreeMap::new()),
    }
}

fn parsed(page: &str) -> (BTreeMap<String, Family>, Series) {
    let (mut families, mut series) = (BTreeMap::<String, Family>::new(), Series::new());
    for line in page.lines() {
        if let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|l| l.split_once(' ')) {
            families.entry(name.to_owned()).or_default().help = help.to_owned();
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|l| l.split_once(' ')) {
            families.entry(name.to_owned()).or_default().kind = kind.to_owned();
        } else if let Some((name, value)) = line.rsplit_once(' ') {
            let (name, mut labels) = series_of(name);
            series.insert((name.clone(), labels.clone()), value.parse().expect("a number"));
            let of = ["_bucket", "_sum", "_count"].iter().find_map(|s| name.strip_suffix(s));
            let of = of.filter(|f| families.contains_key(*f)).unwrap_or(&name);
            let family = families.get_mut(of).unwrap_or_else(|| panic!("{name} has no TYPE"));
            family.bounds.extend(labels.remove("le").map(|le| number(&le)));
            family.labels.insert(labels.into_keys().collect());
        }
    }
    (families, series)
}

/// A number in one spelling.
fn number(text: &str) -> String {
    text.parse::<f64>().map_or_else(|_| text.to_owned(), |v| v.to_string())
}

/// What a HELP text must begin with.
fn stability(help: &str) -> &str {
    help.rfind(']').map_or("", |end| &help[..=end])
}

fn assert_covers(ours: &str, recorded: &str) {
    let (ours, _) = parsed(ours);
    let (theirs, _) = parsed(recorded);
    let mut wrong = String::new();
    for (name, theirs) in theirs.iter().filter(|(name, _)| !name.starts_with("process_network_")) {
        let Some(ours) = ours.get(name) else {
            let _ = writeln!(wrong, "{name} is not there");
            continue;
        };
        if ours.kind != theirs.kind {
            let _ = writeln!(wrong, "{name} is a {}, recorded {}", ours.kind, theirs.kind);
        }
        if !ours.help.starts_with(stability(&theirs.help)) {
            let _ = writeln!(wrong, "{name} begins its HELP with {:?}, recorded {:?}", ours.help, theirs.help);
        }
        if !theirs.labels.is_empty() && ours.labels != theirs.labels {
            let _ = writeln!(wrong, "{name} has labels {:?}, recorded {:?}", ours.labels, theirs.labels);
        }
        if !ours.bounds.is_superset(&theirs.bounds) {
            let lost: Vec<&String> = theirs.bounds.difference(&ours.bounds).collect();
            let _ = writeln!(wrong, "{name} lacks the bounds {lost:?}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

#[test]
fn the_page_has_every_family_type_label_set_bound_and_old_name_of_the_recorded_ones() {
    let recording = json_file(&golden().join("metrics/default-by-request.json"));
    let page = |name: &str| std::fs::read_to_string(golden().join("metrics").join(name)).expect("it is there");
    let process = Process::start(&recording);
    assert_covers(&process.page(), &page("default-before.prom"));
    for request in recording["requests"].as_array().expect("requests") {
        process.replay(&request["sent"].as_array().expect("messages").iter().collect::<Vec<_>>());
    }
    assert_covers(&process.page(), &page("default-after.prom"));
}

/// What the recording leaves out: buckets, sums of times, and the durations of plugins.
fn is_compared(name: &str) -> bool {
    let family = |f: &str| name.strip_suffix(f).is_some_and(|n| n.ends_with("_seconds"));
    !name.ends_with("_bucket") && !family("_sum") && !name.contains("plugin_duration") && !name.starts_with("process_")
}

#[test]
fn each_kind_of_request_changes_what_it_changed_in_the_recording_or_differs_on_purpose() {
    let recording = json_file(&golden().join("metrics/default-by-request.json"));
    let after = std::fs::read_to_string(golden().join("metrics/default-after.prom")).expect("it is there");
    let known: BTreeSet<String> = parsed(&after).1.into_keys().map(|(name, _)| name).collect();
    let list = json_file(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/metrics_differences.json"));
    let on_purpose = list["differences"].as_array().expect("a list");
    let (mut wrong, mut used) = (String::new(), BTreeSet::new());

    let process = Process::start(&recording);
    let mut before = parsed(&process.page()).1;
    for (n, request) in recording["requests"].as_array().expect("requests").iter().enumerate() {
        let name = request["request"].as_str().expect("a name");
        process.replay(&request["sent"].as_array().expect("messages").iter().collect::<Vec<_>>());
        let now = parsed(&process.page()).1;
        let mut changes: BTreeMap<(String, BTreeMap<String, String>), (f64, f64)> = BTreeMap::new();
        for (series, value) in now.iter().filter(|((name, _), _)| known.contains(name) && is_compared(name)) {
            let change = value - before.get(series).copied().unwrap_or(0.0);
            if change != 0.0 {
                changes.entry(series.clone()).or_default().0 = change;
            }
        }
        for (series, values) in request["changed"].as_object().expect("changes") {
            let value = |v: &Value| v.as_str().map_or(0.0, |v| v.parse::<f64>().expect("a number"));
            changes.entry(series_of(series)).or_default().1 = value(&values[1]) - value(&values[0]);
        }
        for ((family, labels), (ours, theirs)) in changes.iter().filter(|(_, (o, t))| (o - t).abs() > 1e-9) {
            let differs = |d: &&Value| {
                let families = d["families"].as_array().expect("families");
                d["request"] == name
                    && d["number"].as_u64().is_none_or(|number| number == n as u64 + 1)
                    && families.iter().any(|f| f == family)
                    && d["ours"].as_f64().is_some_and(|v| (v - ours).abs() < 1e-9)
            };
            match on_purpose.iter().position(|d| differs(&d)) {
                Some(place) => drop(used.insert(place)),
                None => {
                    let _ = writeln!(wrong, "{} {name}: {family} {labels:?} by {ours}, recorded {theirs}", n + 1);
                }
            }
        }
        before = now;
    }
    for (_, left) in on_purpose.iter().enumerate().filter(|(place, _)| !used.contains(place)) {
        let _ = writeln!(wrong, "no longer differs; take it from the list: {left}");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
