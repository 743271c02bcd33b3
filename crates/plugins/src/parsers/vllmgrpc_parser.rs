//! `vllmgrpc-parser`: Reads requests of vLLM's gRPC service.
//!
//! Token ids are taken as they are, a text is hashed as that of a completion. Messages name no model, so none is asked for, and they pass as
//! they came. Other methods of the service are not claimed: list `passthrough-parser` behind this one to serve them.
//!
//! Source: request-lifecycle 2.7.

use super::Claims;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_wire::body::Api;

/// What it claims.
pub static CLAIMS: Claims = Claims {
    needs_model: false,
    ..Claims::new(
        "vllmgrpc-parser",
        &[
            ("vllm.grpc.engine.VllmEngine/Generate", Api::VllmGrpcGenerate),
            ("vllm.grpc.engine.VllmEngine/Embed", Api::VllmGrpcEmbed),
        ],
    )
};

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("vllmgrpc-parser", &[Kind::Parser], Stability::Beta, "Reads requests of vLLM's gRPC service.")
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { parser: Some(&CLAIMS), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::tests::read_as;

    #[test]
    fn it_reads_its_own_paths() {
        for (path, api) in [
            ("/vllm.grpc.engine.VllmEngine/Generate", Some(Api::VllmGrpcGenerate)),
            ("/vllm.grpc.engine.VllmEngine/Abort", None),
        ] {
            assert_eq!(read_as(&CLAIMS, path), api, "{path}");
        }
    }
}
