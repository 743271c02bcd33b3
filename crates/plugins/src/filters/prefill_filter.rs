//! `prefill-filter`: keeps endpoints whose role label includes prefill.
//!
//! Looks at the label `llm-d.ai/role`. Without parameters. Source: plugin specification 5.1.

use super::by_label::ByLabel;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};

/// The filter.
#[must_use]
pub fn filter() -> ByLabel {
    ByLabel::role(&["prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"], false)
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("prefill-filter", &[Kind::Filter], Stability::Beta, "Keeps endpoints whose role label includes prefill.")
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance::filter(filter())
}
