//! gRPC requests and responses: any message in a good frame, cut into chunks anywhere. (Bad frames are `body`'s and `usage`'s.)
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| pointsman_wire::fuzzing::grpc(data));
