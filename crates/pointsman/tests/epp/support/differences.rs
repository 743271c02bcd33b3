//! `differences.json`: what is otherwise on purpose, and what is not there yet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::json;

pub(crate) fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/epp/differences.json")
}

/// Compares what was found to differ, under keys that begin with `prefix`, with the list; `found` holds what is ours.
///
/// # Panics
/// When something differs that is not listed, is listed as otherwise, or is listed and does not differ.
pub(crate) fn settle(prefix: &str, found: &BTreeMap<String, String>) {
    let listed = json(&path());
    let of = |section: &str| -> BTreeMap<String, Value> {
        let all = listed[section].as_object().cloned().unwrap_or_default();
        all.into_iter().filter(|(key, _)| key.starts_with(prefix)).collect()
    };
    let (differences, pending) = (of("differences"), of("pending"));
    let mut wrong = Vec::new();
    for (key, ours) in found {
        match differences.get(key) {
            Some(entry) if entry["ours"].as_str() == Some(ours) => {}
            Some(entry) => wrong.push(format!("{key}: {ours}\n    on purpose would be: {}", entry["ours"])),
            None if pending.contains_key(key) => {}
            None => wrong.push(format!("{key}: {ours}")),
        }
    }
    let stale: BTreeSet<&String> =
        differences.keys().chain(pending.keys()).filter(|k| !found.contains_key(*k)).collect();
    wrong.extend(stale.into_iter().map(|key| format!("{key}: no longer differs; take it from the list")));
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_difference_names_the_wart_that_asks_for_it_and_what_a_user_sees() {
    let listed = json(&path());
    for (key, entry) in listed["differences"].as_object().expect("differences") {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        assert!(text("wart").contains(':') && text("wart").len() > 20, "{key}: wart");
        assert!(!text("ours").is_empty() && entry["what"].is_string(), "{key}");
    }
    let folders = [path().with_file_name(""), path().with_file_name("../../../extproc/tests/suite")];
    let tests: String = folders
        .iter()
        .flat_map(|folder| std::fs::read_dir(folder).expect("a folder of tests"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .map(|path| std::fs::read_to_string(path).expect("a file"))
        .collect();
    for entry in listed["not recorded"].as_array().expect("what no recording shows") {
        let text = |field: &str| entry[field].as_str().unwrap_or_default();
        assert!(text("wart").contains(':') && text("wart").len() > 20, "{entry}");
        assert!(tests.contains(&format!("fn {}()", text("test"))), "{entry}: no such test");
    }
}
