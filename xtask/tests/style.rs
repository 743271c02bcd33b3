//! Rules of the source tree that no compiler checks.

use std::path::{Path, PathBuf};

/// A file longer than this holds a second idea.
const MAX_LINES: usize = 600;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the workspace")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        let name = path.file_name().unwrap_or_default();
        if path.is_dir() && name != "target" {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|own| own == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<PathBuf> {
    ["crates", "xtask", "fuzz", "benches"].iter().flat_map(|folder| files(&root().join(folder), "rs")).collect()
}

#[test]
fn a_source_file_holds_one_idea_and_is_no_longer_than_that_takes() {
    let sources = sources();
    assert!(sources.len() > 20, "only {} source files found", sources.len());
    let long: Vec<String> = sources
        .iter()
        .filter_map(|path| {
            let lines = std::fs::read_to_string(path).expect("a source file is text").lines().count();
            (lines > MAX_LINES).then(|| format!("{}: {lines} lines", path.display()))
        })
        .collect();
    assert!(long.is_empty(), "{long:#?}");
}

#[test]
fn a_source_file_opens_by_saying_what_it_is() {
    let silent: Vec<PathBuf> = sources()
        .into_iter()
        .filter(|path| {
            let text = std::fs::read_to_string(path).expect("a source file is text");
            let mut lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("#!["));
            lines.next().is_none_or(|line| !line.starts_with("//!"))
        })
        // What a test includes with `mod tests;` is introduced by the file it belongs to.
        .filter(|path| path.file_stem().is_none_or(|stem| stem != "tests"))
        .collect();
    assert!(silent.is_empty(), "no `//!` at the top of {silent:#?}");
}

/// One folder per plugin kind, one file per plugin, named as its configuration type in snake_case.
#[test]
fn a_plugin_file_is_named_as_the_plugin_type_it_holds() {
    let plugins = root().join("crates/plugins/src");
    let mut wrong = Vec::new();
    for kind in ["filters", "scorers", "pickers", "producers", "profile_handlers"] {
        for path in files(&plugins.join(kind), "rs") {
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if stem == "mod" {
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file is text");
            let named = format!("\"{}\"", stem.replace('_', "-"));
            // A folder may hold what its plugins share; it then names no plugin type at all.
            let holds_a_type = text.contains("TYPE: &str") || text.contains("TYPE: PluginType");
            if holds_a_type && !text.contains(&named) {
                wrong.push(format!("{} does not hold the type {named}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
