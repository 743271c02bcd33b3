//! Test data is what was recorded, byte for byte.
//!
//! Recordings are copied into the repository so that tests need nothing beside it. Where the originals lie beside the
//! checkout, every copy is compared; elsewhere there is nothing to compare with and the test says so.

use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the workspace")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Copies and the folder of originals each must equal.
const COPIES: [(&str, &str); 2] = [("testdata/fixtures", "fixtures"), ("testdata/mooncake", "data/mooncake")];

#[test]
fn copies_of_recordings_equal_their_originals() {
    let originals = root().join("../shared");
    if !originals.is_dir() {
        println!("the originals are not beside this checkout: nothing to compare with");
        return;
    }
    let mut wrong = Vec::new();
    for (copies, folder) in COPIES {
        let copies = root().join(copies);
        for copy in files(&copies) {
            let relative = copy.strip_prefix(&copies).expect("a file of the folder");
            let original = originals.join(folder).join(relative);
            match (std::fs::read(&copy), std::fs::read(&original)) {
                (Ok(copied), Ok(recorded)) if copied == recorded => {}
                (Ok(_), Ok(_)) => wrong.push(format!("{} was changed", copy.display())),
                _ => wrong.push(format!("{} has no original", copy.display())),
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_recordings_that_tests_stand_on_are_in_the_repository() {
    for (folder, at_least) in [
        ("testdata/fixtures/golden/scheduling", 20),
        ("testdata/fixtures/golden/prefix-cache", 10),
        ("testdata/fixtures/golden/in-flight", 3),
        ("testdata/fixtures/golden/engine-metrics", 3),
        ("testdata/fixtures/golden/parsers", 19),
        ("testdata/fixtures/golden/config", 100),
        ("testdata/fixtures/vllm/http", 40),
        ("testdata/fixtures/vllm/metrics", 5),
        ("testdata/fixtures/vllm/model", 5),
        ("testdata/fixtures/vllm/model-adapter-a", 2),
        ("testdata/mooncake", 2),
    ] {
        let found = files(&root().join(folder)).len();
        assert!(found >= at_least, "{folder}: {found} files");
    }
}
