//! `decode-filter`: keeps endpoints that decode: no role label, or one that includes decode.
//!
//! Looks at the label `llm-d.ai/role`. Source: plugin specification 5.1, and the `Wart:` of disaggregation 1 that asks for a strict way.

use super::by_label::ByLabel;
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};

/// The filter.
#[must_use]
pub fn filter(allows_no_label: bool) -> ByLabel {
    ByLabel::role(&["decode", "prefill-decode", "both", "encode-decode", "encode-prefill-decode"], allows_no_label)
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new(
        "allowsNoLabel",
        ParamKind::Bool,
        "Keep endpoints without the label; `false` where every one of them has it, so that a forgotten label is no decode endpoint.",
    )
    .default("true")],
    build: Some(build),
    ..Row::new(
        "decode-filter",
        &[Kind::Filter],
        Stability::Beta,
        "Keeps endpoints that decode: no role label, or one that includes decode.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::filter(filter(b.params.bool("allowsNoLabel")))
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
        assert_eq!(bench.kept(&filter(true)), ["none", "decode", "both", "encode-decode"]);
        assert_eq!(bench.kept(&filter(false)), ["decode", "both", "encode-decode"]);
    }
}
