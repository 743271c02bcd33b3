//! `label-selector-filter`: keep endpoints whose labels match a Kubernetes label selector.
//!
//! `matchLabels` and every entry of `matchExpressions` must hold. `In` and `Exists` need the label; `NotIn` and `DoesNotExist` hold where it
//! is absent. An empty selector passes everything. Source: plugin specification 5.2.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind, Params};
use pointsman_fleet::Labels;
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Cycle, Filter, Scope};
use std::sync::Arc;

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// The label has one of the values.
    In(Arc<str>, Vec<String>),
    /// The label is absent, or has none of the values.
    NotIn(Arc<str>, Vec<String>),
    /// The label is there.
    Exists(Arc<str>),
    /// The label is absent.
    DoesNotExist(Arc<str>),
}

impl Requirement {
    fn holds(&self, labels: &Labels) -> bool {
        match self {
            Self::In(key, values) => labels.get(key).is_some_and(|v| values.iter().any(|w| w == v)),
            Self::NotIn(key, values) => labels.get(key).is_none_or(|v| values.iter().all(|w| w != v)),
            Self::Exists(key) => labels.get(key).is_some(),
            Self::DoesNotExist(key) => labels.get(key).is_none(),
        }
    }

    fn key(&self) -> &Arc<str> {
        match self {
            Self::In(k, _) | Self::NotIn(k, _) | Self::Exists(k) | Self::DoesNotExist(k) => k,
        }
    }
}

/// Keeps endpoints that meet every requirement.
#[derive(Debug, Default)]
pub struct LabelSelectorFilter(pub Vec<Requirement>);

impl Filter for LabelSelectorFilter {
    fn filter(&self, _: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        for (i, (_, candidate)) in scope.iter().enumerate() {
            let labels = &candidate.endpoint.meta.labels;
            if let Some(unmet) = self.0.iter().find(|r| !r.holds(labels)) {
                let key = Arc::clone(unmet.key());
                let reason = match labels.get(&key) {
                    Some(value) => Reason::LabelValue(key, value.into()),
                    None => Reason::LabelMissing(key),
                };
                drop(i, reason);
            }
        }
    }
}

const EXPRESSION: ParamKind = ParamKind::Object(&[
    Param::new("key", ParamKind::String, "Label.").required(),
    Param::new("operator", ParamKind::Enum(&["In", "NotIn", "Exists", "DoesNotExist"]), "How the label is compared.")
        .required(),
    Param::new("values", ParamKind::List(&ParamKind::String), "Values for `In` and `NotIn`.").default("[]"),
]);

const PARAMS: &[Param] = &[
    Param::new("matchLabels", ParamKind::AnyMap, "Labels an endpoint must have, with their values.").default("{}"),
    Param::new("matchExpressions", ParamKind::List(&EXPRESSION), "Further requirements.").default("[]"),
];

/// Its row.
pub const ROW: Row = Row {
    params: PARAMS,
    build: Some(build),
    ..Row::new(
        "label-selector-filter",
        &[Kind::Filter],
        Stability::Beta,
        "Keeps endpoints whose labels match a Kubernetes label selector; an empty one passes everything.",
    )
};

/// The row of the deprecated spelling.
pub const OLD_ROW: Row = Row {
    params: PARAMS,
    build: Some(build),
    deprecated: Some("use `label-selector-filter`"),
    ..Row::new("by-label-selector", &[Kind::Filter], Stability::Beta, "Old name of `label-selector-filter`.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let mut requirements: Vec<Requirement> = b
        .params
        .map("matchLabels")
        .into_iter()
        .flatten()
        .map(|(k, v)| Requirement::In(k.as_str().into(), vec![v.clone()]))
        .collect();
    let expressions: Vec<Params> = b.params.objects("matchExpressions").cloned().collect();
    for e in &expressions {
        let key: Arc<str> = e.str("key").into();
        let values: Vec<String> = e.strings("values").map(str::to_owned).collect();
        let operator = e.str("operator").to_owned();
        let wants_values = matches!(&*operator, "In" | "NotIn");
        if wants_values == values.is_empty() {
            let say = if wants_values { "needs at least one entry in `values`" } else { "takes no `values`" };
            b.fault("matchExpressions", &format!("operator `{operator}` {say}"));
        }
        requirements.push(match &*operator {
            "In" => Requirement::In(key, values),
            "NotIn" => Requirement::NotIn(key, values),
            "Exists" => Requirement::Exists(key),
            _ => Requirement::DoesNotExist(key),
        });
    }
    Instance::filter(LabelSelectorFilter(requirements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn kept(requirements: Vec<Requirement>) -> Vec<String> {
        let bench = Bench::new([
            endpoint("a").label("zone", "z1"),
            endpoint("b").label("zone", "z2"),
            endpoint("c").label("tier", "x"),
        ]);
        bench.kept(&LabelSelectorFilter(requirements))
    }

    #[test]
    fn each_operator_follows_kubernetes() {
        let zone = || Arc::<str>::from("zone");
        assert_eq!(kept(vec![Requirement::In(zone(), vec!["z1".into()])]), ["a"]);
        assert_eq!(kept(vec![Requirement::NotIn(zone(), vec!["z1".into()])]), ["b", "c"]);
        assert_eq!(kept(vec![Requirement::Exists(zone())]), ["a", "b"]);
        assert_eq!(kept(vec![Requirement::DoesNotExist(zone())]), ["c"]);
    }

    #[test]
    fn all_requirements_must_hold_and_none_passes_everything() {
        assert_eq!(kept(vec![]), ["a", "b", "c"]);
        assert!(kept(vec![Requirement::Exists("zone".into()), Requirement::Exists("tier".into())]).is_empty());
    }
}
