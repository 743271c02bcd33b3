//! `decode-filter`: keeps endpoints that decode: no role label, or one that includes decode.
//!
//! Looks at the label `llm-d.ai/role`. Without parameters. Source: plugin specification 5.1.

use super::by_label::ByLabel;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};

/// The filter.
#[must_use]
pub fn filter() -> ByLabel {
    ByLabel::role(&["decode", "prefill-decode", "both", "encode-decode", "encode-prefill-decode"], true)
}

/// Its row.
pub const ROW: Row = Row {
    build: Some(build),
    ..Row::new(
        "decode-filter",
        &[Kind::Filter],
        Stability::Beta,
        "Keeps endpoints that decode: no role label, or one that includes decode.",
    )
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
        assert_eq!(bench.kept(&filter()), ["none", "decode", "both", "encode-decode"]);
    }
}
