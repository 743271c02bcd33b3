//! Entry point for fuzzers: a file goes through everything that `pointsman check` does with it.

use crate::compile::{CompileOptions, DefaultProfile, judge};
use std::sync::Arc;

/// Judges a file. Nothing panics, every fault is placed inside the text, and what has no error can be used.
///
/// # Panics
/// Where that is not so.
pub fn file(bytes: &[u8]) {
    for allow_experimental in [false, true] {
        let options = CompileOptions { allow_experimental, default: DefaultProfile::Serve, states: Arc::default() };
        let judged = judge(bytes, &options);
        assert!(!judged.documents.is_empty(), "a file has a document, be it an empty one");
        assert_eq!(judged.is_usable(), judged.faults.errors() == 0, "{:?}", judged.faults);
        pointsman_config::fuzzing::inside(bytes, &judged.faults);
    }
}
