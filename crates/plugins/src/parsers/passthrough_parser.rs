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
