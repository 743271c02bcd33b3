//! Metrics pages.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pointsman_wire::fuzzing::exposition(data));
