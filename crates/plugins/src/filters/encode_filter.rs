//! `encode-filter`: keeps endpoints whose role label includes encode.
//!
//! Looks at the label `llm-d.ai/role`. Without parameters. Source: plugin specification 5.1.

use super::by_label::ByLabel;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};

/// The filter.
#[must_use]
pub fn filter() -> ByLabel {
    ByLabel::role(&["encode", "encode-decode", "encode-prefill", "encode-prefill-decode"], false)
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new("encode-filter", &[Kind::Filter], Stability::Beta, "Keeps endpoints whose role label includes encode.")
};

fn build(_: &mut Build<'_>) -> Instance {
    Instance::filter(filter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_role_label_decides() {
        let roles = ["decode", "prefill", "encode", "both", "encode-prefill", "encode-decode", "unheard-of"];
        let labelled = roles.map(|role| endpoint(role).label("llm-d.ai/role", role));
        let bench = Bench::new([endpoint("none")].into_iter().chain(labelled));
        assert_eq!(bench.kept(&filter()), ["encode", "encode-prefill", "encode-decode"]);
    }
}
