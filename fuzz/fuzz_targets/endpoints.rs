//! Files that list endpoints.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pointsman_config::fuzzing::endpoints(data));
