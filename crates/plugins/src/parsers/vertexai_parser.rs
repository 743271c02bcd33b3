//! `vertexai-parser`: Reads requests of Vertex AI's prediction service.
//!
//! The JSON inside is read as a chat (`ChatCompletions`) or a responses request (`RawPredict`, `StreamRawPredict`). Its model counts where it
//! names one, none is asked for, and the message passes as it came.
//!
//! Source: request-lifecycle 2.8.

use super::Claims;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_wire::body::Api;

/// What it claims.
pub static CLAIMS: Claims = Claims {
    needs_model: false,
    ..Claims::new(
        "vertexai-parser",
        &[
            ("PredictionService/ChatCompletions", Api::VertexChat),
            ("PredictionService/StreamRawPredict", Api::VertexResponses),
            ("PredictionService/RawPredict", Api::VertexResponses),
        ],
    )
};

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("vertexai-parser", &[Kind::Parser], Stability::Beta, "Reads requests of Vertex AI's prediction service.")
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
            ("/google.cloud.aiplatform.v1.PredictionService/ChatCompletions", Some(Api::VertexChat)),
            ("/v1/chat/completions", None),
        ] {
            assert_eq!(read_as(&CLAIMS, path), api, "{path}");
        }
    }
}
