//! A started Endpoint Picker, and ways to talk to it.

pub(crate) mod certificates;
pub(crate) mod differences;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod process;

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A file of the recordings.
pub(crate) fn golden(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/fixtures/golden").join(path)
}

pub(crate) fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
