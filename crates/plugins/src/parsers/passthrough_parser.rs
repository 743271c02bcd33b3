//! `passthrough-parser`: Takes every path that no other parser claims, and looks into nothing.
//!
//! Source: request-lifecycle 2.3.

use super::Claims;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};

/// What it claims.
pub static CLAIMS: Claims = Claims { needs_model: false, ..Claims::new("passthrough-parser", &[]) };

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new(
        "passthrough-parser",
        &[Kind::Parser],
        Stability::Beta,
        "Takes every path that no other parser claims, and looks into nothing.",
    )
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance { parser: Some(&CLAIMS), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parsers::tests::read_as;
    use pointsman_wire::body::Api;

    #[test]
    fn it_reads_its_own_paths() {
        for (path, api) in [("/v1/chat/completions", Some(Api::Raw)), ("/anything", Some(Api::Raw))] {
            assert_eq!(read_as(&CLAIMS, path), api, "{path}");
        }
    }
}
