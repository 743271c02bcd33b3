//! `by-label` (deprecated): keep endpoints whose label has one of the listed values. The role filters are made of it.
//!
//! An endpoint passes when its label has a listed value, or when it has no such label and `allowsNoLabel` is set. An absent label
//! compares as the empty string, so listing `""` admits unlabelled endpoints too. Source: plugin specification 5.1.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Cycle, Filter, Scope};
use std::sync::Arc;

/// Keeps endpoints by the value of one label.
#[derive(Debug)]
pub struct ByLabel {
    label: Arc<str>,
    values: Vec<String>,
    allows_no_label: bool,
}

/// The label that says what an endpoint does in a disaggregated fleet.
pub const ROLE: &str = "llm-d.ai/role";

impl ByLabel {
    /// Endpoints with one of `values`, and those without the label where `allows_no_label`.
    pub fn new(label: impl Into<Arc<str>>, values: Vec<String>, allows_no_label: bool) -> Self {
        Self { label: label.into(), values, allows_no_label }
    }

    /// By role.
    #[must_use]
    pub fn role(values: &[&str], allows_no_label: bool) -> Self {
        Self::new(ROLE, values.iter().map(|v| (*v).to_owned()).collect(), allows_no_label)
    }
}

impl Filter for ByLabel {
    fn filter(&self, _: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        for (i, (_, candidate)) in scope.iter().enumerate() {
            let label = candidate.endpoint.meta.labels.get(&self.label);
            let passes =
                (label.is_none() && self.allows_no_label) || self.values.iter().any(|v| v == label.unwrap_or_default());
            if !passes {
                drop(
                    i,
                    match label {
                        None => Reason::LabelMissing(Arc::clone(&self.label)),
                        Some(value) => Reason::LabelValue(Arc::clone(&self.label), value.into()),
                    },
                );
            }
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("label", ParamKind::String, "Label to look at.").required(),
        Param::new("validValues", ParamKind::List(&ParamKind::String), "Values that pass.").default("[]"),
        Param::new("allowsNoLabel", ParamKind::Bool, "Whether an endpoint without the label passes.").default("false"),
    ],
    deprecated: Some("use `label-selector-filter`, or a role filter"),
    example: "{label: llm-d.ai/role, validValues: [decode], allowsNoLabel: true}",
    build: Some(build),
    ..Row::new(
        "by-label",
        &[Kind::Filter],
        Stability::Beta,
        "Keeps endpoints whose label has one of the listed values.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let label = b.params.str("label").to_owned();
    let values: Vec<String> = b.params.strings("validValues").map(str::to_owned).collect();
    let allows = b.params.bool("allowsNoLabel");
    if label.is_empty() {
        b.fault("label", "`label` must not be empty");
    }
    if values.is_empty() && !allows {
        b.fault("validValues", "nothing would ever pass: list `validValues`, or set `allowsNoLabel: true`");
    }
    Instance::filter(ByLabel::new(label, values, allows))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn kept(filter: &dyn Filter) -> Vec<String> {
        let bench = Bench::new([
            endpoint("a"),
            endpoint("b").label(ROLE, "decode"),
            endpoint("c").label(ROLE, "prefill"),
            endpoint("d").label(ROLE, "both"),
        ]);
        bench.kept(filter)
    }

    #[test]
    fn decode_takes_unlabelled_endpoints_and_prefill_does_not() {
        assert_eq!(kept(&crate::filters::decode_filter::filter(true)), ["a", "b", "d"]);
        assert_eq!(kept(&crate::filters::prefill_filter::filter()), ["c", "d"]);
        assert!(kept(&crate::filters::encode_filter::filter()).is_empty());
    }

    #[test]
    fn an_absent_label_compares_as_the_empty_string() {
        assert_eq!(kept(&ByLabel::role(&["", "prefill"], false)), ["a", "c"]);
        assert_eq!(kept(&ByLabel::role(&["prefill"], true)), ["a", "c"]);
    }
}
