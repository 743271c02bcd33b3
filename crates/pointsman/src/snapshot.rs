//! Expected outputs as files: `UPDATE_SNAPSHOTS=1 cargo test -p pointsman` writes them anew, the diff is for review.

use std::path::Path;

/// Compares with `tests/snapshots/NAME`.
pub(crate) fn same(name: &str, got: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots").join(name);
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        std::fs::write(&path, got).expect("the snapshot can be written");
    }
    let want = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert!(got == want, "{name} differs; expected:\n{want}\ngot:\n{got}");
}
