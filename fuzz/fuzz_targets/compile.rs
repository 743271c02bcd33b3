//! Whole files through the whole compilation, as `pointsman check` takes them. Seeds: `crates/plugins/tests/configs`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pointsman_plugins::fuzzing::file(data));
