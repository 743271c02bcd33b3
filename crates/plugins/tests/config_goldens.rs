//! Configurations that the Go picker accepted or refused (`testdata/fixtures/golden/config`), compiled here: compared by outcome.

use pointsman_config::{Faults, Severity};
use pointsman_plugins::{CompileOptions, DefaultProfile, compile};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

#[test]
fn documents_are_accepted_and_refused_as_recorded_or_differ_on_purpose() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = here.join("../../testdata/fixtures/golden/config");
    let expected = json(&here.join("tests/config_differences.json"));
    let on_purpose = expected["differences"].as_object().expect("differences");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(&golden).expect("golden data").map(|e| e.expect("an entry").path()).collect();
    files.sort();
    let (mut wrong, mut compared, mut pending) = (String::new(), 0, 0);
    let mut differing = BTreeSet::new();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "json")) {
        let name = file.file_stem().expect("a name").to_string_lossy().into_owned();
        // Flags and the endpoints file are not part of a document.
        if name.starts_with("flag-") || name.starts_with("endpoints-") || name == "discovery-no-file" {
            continue;
        }
        let recording = json(file);
        let text =
            std::fs::read(golden.join(recording["config"].as_str().expect("a configuration"))).expect("readable");
        let flags: Vec<&str> = recording["flags"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let options = CompileOptions {
            allow_experimental: flags.contains(&"--allow-experimental-plugins"),
            default: DefaultProfile::Epp,
            states: Arc::default(),
        };
        let mut faults = Faults::new();
        let compiled = compile(&text, &options, &mut faults);
        let errors: Vec<String> =
            faults.iter().filter(|f| f.severity == Severity::Error).map(ToString::to_string).collect();
        if errors.iter().any(|e| e.contains("not yet available")) {
            pending += 1;
            continue;
        }
        compared += 1;
        assert_eq!(compiled.is_none(), !errors.is_empty(), "{name}: {errors:?}");
        let accepted = recording["outcome"] == "accepted";
        if accepted != errors.is_empty() {
            differing.insert(name.clone());
            if !on_purpose.contains_key(&name) {
                let _ = writeln!(wrong, "{name}: recorded {}, here {errors:?}", recording["outcome"]);
            }
        } else if let (Some(compiled), Some(theirs)) = (&compiled, recording["scheduler"].as_str()) {
            let ours = scorers(&compiled.effective);
            let theirs = recorded_scorers(theirs);
            if ours != theirs {
                let _ = writeln!(wrong, "{name}: scorers {ours:?}, recorded {theirs:?}");
            }
        }
    }
    for name in on_purpose.keys().filter(|k| !differing.contains(*k)) {
        let _ = writeln!(wrong, "{name}: no longer differs; take it from the list");
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert!(compared > 60, "only {compared} compared, {pending} pending");
}

/// Weights by scorer, over all profiles.
fn scorers(effective: &Value) -> BTreeMap<String, String> {
    let members = effective["schedulingProfiles"].as_array().into_iter().flatten();
    let members = members.flat_map(|p| p["plugins"].as_array().into_iter().flatten());
    let weight = |m: &Value| Some((m["pluginRef"].as_str()?.to_owned(), format!("{:.6}", m["weight"].as_f64()?)));
    members.filter_map(weight).collect()
}

/// The same of the line that the Go program logs: `Scorers: [name/type: 2.000000 ...]`.
fn recorded_scorers(line: &str) -> BTreeMap<String, String> {
    let lists = line.split("Scorers: [").skip(1).filter_map(|rest| rest.split_once(']'));
    let mut out = BTreeMap::new();
    for (list, _) in lists {
        let words: Vec<&str> = list.split_whitespace().collect();
        for pair in words.chunks(2) {
            if let [name, weight] = pair {
                let name = name.trim_end_matches(':').split('/').next().unwrap_or_default();
                out.insert(name.to_owned(), weight.trim_end_matches(',').to_owned());
            }
        }
    }
    out
}
