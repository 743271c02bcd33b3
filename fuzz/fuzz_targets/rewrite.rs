//! Responses whose model is given another name, cut into chunks anywhere.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pointsman_wire::fuzzing::rewrite(data));
