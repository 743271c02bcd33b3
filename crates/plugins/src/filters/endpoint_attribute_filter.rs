//! `endpoint-attribute-filter`: keep endpoints by comparing any number about them with a limit.
//!
//! The number is one of the engine's gauges, or an attribute that an extractor publishes ([`crate::attribute`]). An endpoint whose number is unknown
//! passes, or fails with `onMissing: Fail`. With `fallbackOnEmpty`, nobody is dropped when everybody would be. Source: plugin specification 5.4.

use crate::attribute::{EndpointAttribute, PRODUCER};
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Candidate, Cycle, Filter, Scope};
use std::sync::Arc;

/// How a number is compared with the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Below it.
    LessThan,
    /// Below it, or equal.
    LessThanOrEqual,
    /// Above it.
    GreaterThan,
    /// Above it, or equal.
    GreaterThanOrEqual,
    /// The same.
    Equal,
    /// Another one.
    NotEqual,
}

impl Operator {
    const NAMES: &'static [&'static str] =
        &["LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Equal", "NotEqual"];
    const ALL: [Self; 6] = [
        Self::LessThan,
        Self::LessThanOrEqual,
        Self::GreaterThan,
        Self::GreaterThanOrEqual,
        Self::Equal,
        Self::NotEqual,
    ];

    fn named(name: &str) -> Self {
        let at = Self::NAMES.iter().position(|n| *n == name);
        at.map_or(Self::LessThan, |at| Self::ALL[at])
    }

    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::LessThan => value < limit,
            Self::LessThanOrEqual => value <= limit,
            Self::GreaterThan => value > limit,
            Self::GreaterThanOrEqual => value >= limit,
            Self::Equal => value == limit,
            Self::NotEqual => value != limit,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::LessThan => "below",
            Self::LessThanOrEqual => "at most",
            Self::GreaterThan => "above",
            Self::GreaterThanOrEqual => "at least",
            Self::Equal => "exactly",
            Self::NotEqual => "other than",
        }
    }
}

/// Keeps endpoints whose number is on the right side of a limit.
#[derive(Debug)]
pub struct EndpointAttributeFilter {
    attribute: EndpointAttribute,
    operator: Operator,
    limit: f64,
    missing_passes: bool,
    fallback_on_empty: bool,
}

impl EndpointAttributeFilter {
    fn against(&self, candidate: &Candidate<'_>) -> Option<Reason> {
        match self.attribute.read(candidate) {
            Some(value) if self.operator.holds(value, self.limit) => None,
            Some(value) => Some(Reason::Unmet {
                signal: Arc::clone(self.attribute.name()),
                value,
                wanted: self.operator.words(),
                limit: self.limit,
            }),
            None if self.missing_passes => None,
            None => Some(Reason::Unknown(Arc::clone(self.attribute.name()))),
        }
    }
}

impl Filter for EndpointAttributeFilter {
    fn filter(&self, _: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        if self.fallback_on_empty && scope.iter().all(|(_, c)| self.against(c).is_some()) {
            return;
        }
        for (i, (_, candidate)) in scope.iter().enumerate() {
            if let Some(reason) = self.against(candidate) {
                drop(i, reason);
            }
        }
    }
}

const THRESHOLD: ParamKind = ParamKind::Object(&[
    Param::new("operator", ParamKind::Enum(Operator::NAMES), "How the number must compare with `value`.").required(),
    Param::new("value", ParamKind::NUMBER, "The limit.").required(),
]);

const ALGORITHM: ParamKind = ParamKind::Object(&[
    Param::new("type", ParamKind::Enum(&["threshold"]), "How the number is judged.").required(),
    Param::new("threshold", THRESHOLD, "The comparison.").required(),
]);

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "attribute",
            ParamKind::String,
            "Name of the number: `KVCacheUsagePercent`, `WaitingQueueSize`, `RunningRequestsSize`, or what an extractor publishes.",
        )
        .required(),
        PRODUCER,
        Param::new(
            "onMissing",
            ParamKind::Enum(&["Pass", "Fail"]),
            "What becomes of an endpoint whose number is unknown.",
        )
        .default("\"Pass\""),
        Param::new("fallbackOnEmpty", ParamKind::Bool, "Keep everybody when nobody would be left.").default("false"),
        Param::new("algorithm", ALGORITHM, "What is asked of the number.").required(),
    ],
    example: "{attribute: WaitingQueueSize, algorithm: {type: threshold, threshold: {operator: LessThan, value: 50}}, fallbackOnEmpty: true}",
    build: Some(build),
    ..Row::new(
        "endpoint-attribute-filter",
        &[Kind::Filter],
        Stability::Alpha,
        "Keeps endpoints by comparing any number about them with a limit.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let params = b.params;
    let threshold = params.object("algorithm").and_then(|a| a.object("threshold"));
    Instance::filter(EndpointAttributeFilter {
        attribute: EndpointAttribute::named(b, "attribute"),
        operator: threshold.map_or(Operator::LessThan, |t| Operator::named(t.str("operator"))),
        limit: threshold.map_or(0.0, |t| t.f64("value")),
        missing_passes: params.str("onMissing") != "Fail",
        fallback_on_empty: params.bool("fallbackOnEmpty"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    fn filter(operator: Operator, limit: f64) -> EndpointAttributeFilter {
        EndpointAttributeFilter {
            attribute: EndpointAttribute::new("load", "core-metrics-extractor"),
            operator,
            limit,
            missing_passes: true,
            fallback_on_empty: false,
        }
    }

    fn bench() -> Bench {
        let load = |name: &str, value: f64| endpoint(name).attribute("load", "core-metrics-extractor", value);
        Bench::new([load("a", 5.0), load("b", 4.9), load("c", 6.0), endpoint("d")])
    }

    #[test]
    fn each_operator_compares_with_the_limit_and_an_unknown_number_passes() {
        for (operator, want) in [
            (Operator::LessThan, &["b", "d"][..]),
            (Operator::LessThanOrEqual, &["a", "b", "d"]),
            (Operator::GreaterThan, &["c", "d"]),
            (Operator::GreaterThanOrEqual, &["a", "c", "d"]),
            (Operator::Equal, &["a", "d"]),
            (Operator::NotEqual, &["b", "c", "d"]),
        ] {
            assert_eq!(bench().kept(&filter(operator, 5.0)), want, "{operator:?}");
            assert_eq!(Operator::named(Operator::NAMES[operator as usize]), operator);
        }
    }

    #[test]
    fn an_unknown_number_fails_where_that_is_asked_for() {
        let f = EndpointAttributeFilter { missing_passes: false, ..filter(Operator::LessThan, 5.0) };
        assert_eq!(bench().kept(&f), ["b"]);
    }

    #[test]
    fn fallback_keeps_everybody_when_nobody_would_be_left() {
        let nobody = EndpointAttributeFilter { missing_passes: false, ..filter(Operator::LessThan, 0.0) };
        assert!(bench().kept(&nobody).is_empty());
        let f = EndpointAttributeFilter { fallback_on_empty: true, ..nobody };
        assert_eq!(bench().kept(&f), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_reason_says_the_number_and_what_was_asked_of_it() {
        let f = EndpointAttributeFilter { missing_passes: false, ..filter(Operator::LessThan, 5.0) };
        let reasons = bench().with(|_, scope| -> Vec<String> {
            scope.iter().filter_map(|(_, c)| f.against(c)).map(|r| r.to_string()).collect()
        });
        assert_eq!(reasons, ["load is 5, must be below 5", "load is 6, must be below 5", "load is not known"]);
    }
}
