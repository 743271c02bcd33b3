//! What the Go picker read from engine pages (`testdata/fixtures/golden/engine-metrics`), read by us.
//!
//! `page_differences.json` beside this file lists where we read otherwise on purpose, with the `Wart:` that asks for it.

use pointsman_config::Faults;
use pointsman_core::{EndpointName, Nanos};
use pointsman_fleet::EndpointMeta;
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures/golden")
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

#[test]
fn engine_pages_are_read_as_recorded_or_differ_on_purpose() {
    let expected = json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page_differences.json"));
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
        let mut meta = EndpointMeta::new(EndpointName::new("default", "pod-a"), "10.0.0.1", 8000);
        meta.labels = labels.map(|(k, v)| (k.as_str(), v.as_str().expect("text"))).collect();
        for page in recording["pages"].as_array().expect("pages") {
            pages += 1;
            let read = extractor.extract(&meta, page["page"].as_str().expect("text").as_bytes()).scraped;
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
