//! `docs/migrate-from-llm-d.md` against what the tests find: its table of differences is made from their lists.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::process::{command, pointsman, run};
use crate::support::{differences, json};

const BEGIN: &str = "<!-- differences: begin";
const END: &str = "<!-- differences: end -->";

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/migrate-from-llm-d.md")
}

/// One row for each difference that a user sees. Several recordings may show the same one: the first says what it is.
fn rows(table: &mut String, entries: &[&Value], switch: impl Fn(&str) -> String) {
    for entry in entries {
        let what = entry["what"].as_str().unwrap_or_default();
        if what.is_empty() {
            continue;
        }
        let switch = entry["switch"].as_str().map_or_else(String::new, &switch);
        let _ = writeln!(table, "| {} | {switch} |", what.replace('|', "\\|"));
    }
}

/// The entries of one list.
fn list<'a>(all: &'a Value, name: &str) -> Vec<&'a Value> {
    match &all[name] {
        Value::Object(entries) => entries.values().collect(),
        Value::Array(entries) => entries.iter().collect(),
        _ => panic!("no list {name}"),
    }
}

fn table() -> String {
    let extproc = json(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../extproc/tests/differences.json"));
    let process = json(&differences::path());
    let mut table = "\n| here | the old way |\n| --- | --- |\n".to_owned();
    for name in ["differences", "differences by default"] {
        rows(&mut table, &list(&extproc, name), |way| format!("`--compat {way}`"));
    }
    for name in ["differences", "not recorded"] {
        rows(&mut table, &list(&process, name), |flag| format!("`{flag}`"));
    }
    table.push('\n');
    table
}

#[test]
fn the_table_of_differences_in_the_docs_is_made_from_the_lists_of_the_tests() {
    let text = std::fs::read_to_string(page()).expect("the page");
    let (before, rest) = text.split_once(BEGIN).expect("where the table begins");
    let (marker, rest) = rest.split_once('\n').expect("a line");
    let (shown, after) = rest.split_once(END).expect("where the table ends");
    let table = table();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(page(), format!("{before}{BEGIN}{marker}\n{table}{END}{after}")).expect("the page");
        return;
    }
    assert_eq!(shown, table, "stale: UPDATE_GOLDEN=1 cargo test -p pointsman --test epp docs");
}

#[test]
fn every_way_that_can_be_kept_has_its_row() {
    let mut asked = command(pointsman(), Path::new("."));
    asked.args(["epp", "--help"]);
    let help = run(asked).stdout;
    let ways: Vec<&str> = help
        .lines()
        .skip_while(|line| !line.contains("--compat"))
        .skip_while(|line| !line.contains("Possible values:"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter_map(|line| line.trim().strip_prefix("- "))
        .map(|line| line.split(':').next().unwrap_or_default())
        .collect();
    assert!(ways.len() > 4 && ways[0] == "all", "{ways:?}\n{help}");
    let text = std::fs::read_to_string(page()).expect("the page");
    for way in &ways[1..] {
        assert!(text.contains(&format!("\n| `{way}` | ")), "{way} has no row");
    }
    let rows = text.lines().skip_while(|line| !line.starts_with("| way ")).skip(2).take_while(|l| l.starts_with('|'));
    assert_eq!(rows.count(), ways.len() - 1);
}
