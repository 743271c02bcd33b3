//! Where a plugin is found: its file has its name, and its tests are in it or beside it.

use pointsman_plugins::table::TABLE;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = entry.path();
        if path.is_dir() { files(&path, out) } else { out.push(path) }
    }
}

#[test]
fn the_file_of_every_available_type_has_its_name_and_tests() {
    let mut all = Vec::new();
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut all);
    let texts: BTreeMap<PathBuf, String> =
        all.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).expect("text"))).collect();
    let named = |stem: &str| texts.iter().find(|(path, _)| path.file_stem().is_some_and(|s| s == stem));
    let mut lost = Vec::new();
    for row in TABLE.iter().filter(|row| row.build.is_some()) {
        let stem = row.type_name.replace('-', "_");
        let quoted = format!("\"{}\"", row.type_name);
        // An old name, or one for a fleet of fleets, stands in the file of the type that it is another name of.
        let found = named(&stem).filter(|(_, text)| text.contains(&quoted)).or_else(|| {
            let other = |path: &Path| path.file_name().is_some_and(|name| name != "table.rs");
            texts.iter().find(|(path, text)| other(path) && text.contains(&quoted) && text.contains("Row::new"))
        });
        let Some((path, text)) = found else {
            lost.push(format!("{}: no file {stem}.rs, and no other has its row", row.type_name));
            continue;
        };
        let beside = path.with_extension("").join("tests.rs");
        let tested = text.contains("#[cfg(test)]") || texts.contains_key(&beside);
        if !tested {
            lost.push(format!("{}: {} has no tests", row.type_name, path.display()));
        }
    }
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}
