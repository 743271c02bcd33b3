//! `docs/api.md` names every key there is, and no other.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::{Serve, exchange};

/// The rows of a table of `docs/api.md`: the keys of the first column, and what the second says of them.
struct Table(Vec<(Vec<String>, String)>);

impl Table {
    /// The first table below this line.
    fn below(page: &str, line: &str) -> Self {
        let rows = page.lines().skip_while(|l| *l != line).skip_while(|l| !l.starts_with("| --- ")).skip(1);
        let mut parent = String::new();
        let rows = rows.take_while(|row| row.starts_with("| ")).map(|row| {
            let (keys, meaning) = row[2..].split_once(" | ").expect("two columns");
            let mut keys = words(keys);
            for key in &mut keys {
                // `signals.waiting`, `.running`: the second one is in the same object.
                match key.split_once('.') {
                    Some(("", child)) => *key = format!("{parent}.{child}"),
                    Some((object, _)) => parent = object.to_owned(),
                    None => {}
                }
            }
            (keys, meaning.to_owned())
        });
        let table = Self(rows.collect());
        assert!(!table.0.is_empty(), "no table below {line:?}");
        table
    }

    fn keys(&self) -> BTreeSet<String> {
        self.0.iter().flat_map(|(keys, _)| keys).cloned().collect()
    }

    /// Keys of the object `key`, as the words say.
    fn told_of(&self, key: &str) -> BTreeSet<String> {
        let row = self.0.iter().find(|(keys, _)| keys.iter().any(|k| k == key));
        words(&row.unwrap_or_else(|| panic!("{key} has no row")).1).into_iter().filter(|word| word != "null").collect()
    }

    /// Fails unless it has the keys of this object, and only those.
    fn fits(&self, what: &str, object: &Value) {
        let documented = self.keys();
        let mut real = BTreeSet::new();
        for (key, value) in object.as_object().unwrap_or_else(|| panic!("{what} is an object: {object}")) {
            let inside = format!("{key}.");
            if documented.iter().any(|d| d.starts_with(&inside)) {
                real.extend(keys_of(value).into_iter().map(|child| format!("{inside}{child}")));
            } else {
                real.insert(key.clone());
            }
        }
        same(what, &documented, &real);
    }
}

/// What stands between backquotes.
fn words(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

fn keys_of(object: &Value) -> BTreeSet<String> {
    object.as_object().unwrap_or_else(|| panic!("an object: {object}")).keys().cloned().collect()
}

fn same(what: &str, documented: &BTreeSet<String>, real: &BTreeSet<String>) {
    let missing: Vec<_> = real.difference(documented).collect();
    let gone: Vec<_> = documented.difference(real).collect();
    assert!(
        missing.is_empty() && gone.is_empty(),
        "{what}: not documented {missing:?}, documented but not there {gone:?}"
    );
}

#[test]
fn the_tables_of_the_api_have_the_keys_of_a_real_decision_and_a_real_endpoint_and_no_others() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api.md")).expect("a page");
    // The engines of this demonstration show adapters, too, so that nothing of interest is null.
    let folder = tempfile::tempdir().expect("a folder");
    let shadow = folder.path().join("shadow.yaml");
    std::fs::write(
        &shadow,
        "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins: [{type: queue-scorer}]\n",
    )
    .expect("a file");
    let shadow = shadow.to_str().expect("UTF-8");
    let flags = ["--demo", "deck", "--record-block-hashes", "--show-prompts", "--shadow-config-file", shadow];
    let serve = Serve::start(&flags);
    assert_eq!(serve.chat("demo", &"a prompt of some blocks ".repeat(40)).0, 200);
    let record = serve.last();
    let decision = Table::below(&page, "## A decision");
    decision.fits("a decision", &record);
    same("steps_us", &decision.told_of("steps_us"), &keys_of(&record["steps_us"]));
    let profile = &record["profiles"][0];
    Table::below(&page, "A profile:").fits("a profile", profile);
    let candidate = Table::below(&page, "A candidate:");
    for one in profile["candidates"].as_array().expect("candidates") {
        candidate.fits("a candidate", one);
        for (scorer, score) in one["scores"].as_object().expect("scores") {
            same(scorer, &candidate.told_of("scores"), &keys_of(score));
        }
    }
    assert!(profile["candidates"][0]["scores"].as_object().is_some_and(|scores| !scores.is_empty()), "{record}");
    Table::below(&page, "An outcome:").fits("an outcome", &record["outcome"]);

    what_the_console_asks_for(&page, &serve);

    let (status, _, all) = exchange(&serve.admin, "GET", "/api/endpoints", "");
    assert_eq!(status, 200);
    let endpoint = Table::below(&page, "## An endpoint");
    for one in all["endpoints"].as_array().expect("endpoints") {
        endpoint.fits("an endpoint", one);
    }
    let lora = &all["endpoints"][0]["lora"];
    same("lora", &endpoint.told_of("lora"), &keys_of(lora));
}

fn what_the_console_asks_for(page: &str, serve: &Serve) {
    let ask = |method: &str, path: &str, body: &str| {
        let (status, _, value) = exchange(&serve.admin, method, path, body);
        assert_eq!(status, 200, "{method} {path}: {value}");
        value
    };
    let prefixes = ask("GET", "/api/prefix", "");
    let table = Table::below(page, "## Prefixes");
    table.fits("prefixes", &prefixes);
    same("a holding", &table.told_of("endpoints"), &keys_of(&prefixes["endpoints"][0]));
    Table::below(page, "A branch:").fits("a branch", &prefixes["branches"][0]);

    // Weight where the winner had none, and nothing else, so that something changes or ties.
    let rescored = ask("POST", "/api/rescore", r#"{"weights": {"queue-scorer": 1, "nobody-scorer": 1}}"#);
    let table = Table::below(page, "## Other weights");
    table.fits("rescored", &rescored);
    same("measured", &table.told_of("measured"), &keys_of(&rescored["measured"]));
    assert_eq!(rescored["unused"], serde_json::json!(["nobody-scorer"]));
    let sum: u64 = ["same", "tied", "different", "unrated"].iter().filter_map(|key| rescored[*key].as_u64()).sum();
    assert_eq!(Some(sum), rescored["decisions"].as_u64());

    let phases = ask("GET", "/api/phases?prompt=1000&held_decode=0.5", "");
    let table = Table::below(page, "## Phases");
    table.fits("phases", &phases);
    same("a point", &table.told_of("at"), &keys_of(&phases["at"]));
    assert_eq!(phases["prompt"], 1000.0);
    assert_eq!(ask("GET", "/api/presets", "")["presets"].as_array().map(Vec::len), Some(6));
    assert!(ask("GET", "/api/plugins", "")["plugins"].as_array().is_some_and(|all| all.len() > 50));
}

#[test]
fn a_key_that_is_missing_on_either_side_is_found() {
    let page = "## A thing\n\n| key | meaning |\n| --- | --- |\n| `id` | x |\n| `in.a`, `.b` | y |\n\nmore";
    let table = Table::below(page, "## A thing");
    let fails = |object: Value| std::panic::catch_unwind(|| table.fits("it", &object)).is_err();
    assert!(!fails(serde_json::json!({"id": 1, "in": {"a": 1, "b": 2}})));
    assert!(fails(serde_json::json!({"id": 1, "in": {"a": 1, "b": 2}, "new": 1})));
    assert!(fails(serde_json::json!({"id": 1, "in": {"a": 1, "b": 2, "c": 3}})));
    assert!(fails(serde_json::json!({"id": 1, "in": {"a": 1}})));
    assert!(fails(serde_json::json!({"in": {"a": 1, "b": 2}})));
}
