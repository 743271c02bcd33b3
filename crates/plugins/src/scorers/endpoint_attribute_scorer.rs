//! `endpoint-attribute-scorer`: any number about an endpoint, brought into 0 to 1.
//!
//! The number is one of the engine's gauges, or an attribute that an extractor publishes ([`crate::attribute`]). With `fixedRange` it is
//! `(v - min) / (max - min)`, held within 0 to 1; with `adaptiveRange` (also the default) `min` and `max` are the lowest and highest among the candidates,
//! and everybody scores 1 where these are equal. `linear_lower_is_better` turns it round: `1 - x`. An unknown number takes no part and scores 0.
//! Source: plugin specification 6.

use crate::attribute::{EndpointAttribute, PRODUCER};
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{Cycle, Scope, Scorer};

/// Rates endpoints by a number.
#[derive(Debug)]
pub struct EndpointAttributeScorer {
    attribute: EndpointAttribute,
    lower_is_better: bool,
    /// `None`: as the candidates have it.
    range: Option<(f64, f64)>,
}

impl EndpointAttributeScorer {
    fn range(&self, scope: Scope<'_>) -> (f64, f64) {
        let widened = |(min, max): (f64, f64), v: f64| (min.min(v), max.max(v));
        self.range.unwrap_or_else(|| {
            let values = scope.iter().filter_map(|(_, c)| self.attribute.read(c));
            values.fold((f64::INFINITY, f64::NEG_INFINITY), widened)
        })
    }
}

impl Scorer for EndpointAttributeScorer {
    fn score(&self, _: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let (min, max) = self.range(scope);
        for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
            let Some(value) = self.attribute.read(candidate) else { continue };
            let x = ((value - min) / (max - min)).clamp(0.0, 1.0);
            *out = match x {
                _ if max <= min => 1.0,
                // The range is wider than numbers can tell.
                _ if x.is_nan() => 0.0,
                _ if self.lower_is_better => 1.0 - x,
                _ => x,
            };
        }
    }
}

const LOWER: &str = "linear_lower_is_better";

const FIXED: ParamKind = ParamKind::Object(&[
    Param::new("min", ParamKind::NUMBER, "Value at the low end.").default("0"),
    Param::new("max", ParamKind::NUMBER, "Value at the high end.").default("0"),
]);

const NORMALIZATION: ParamKind = ParamKind::Object(&[
    Param::new("fixedRange", FIXED, "A range that is known."),
    Param::new(
        "adaptiveRange",
        ParamKind::Object(&[]),
        "The range that the candidates have; in force without `fixedRange`.",
    ),
]);

const ALGORITHM: ParamKind = ParamKind::Object(&[
    Param::new("type", ParamKind::Enum(&[LOWER, "linear_higher_is_better"]), "Which end of the range is good.")
        .required(),
    Param::new("normalization", NORMALIZATION, "How the number is brought into 0 to 1.").default("{}"),
]);

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "attributeKey",
            ParamKind::String,
            "Name of the number: `KVCacheUsagePercent`, `WaitingQueueSize`, `RunningRequestsSize`, or what an extractor publishes.",
        )
        .required(),
        PRODUCER,
        Param::new("algorithm", ALGORITHM, "How the number becomes a score.").required(),
    ],
    formula: "x = (v - min) / (max - min), or 1 - x where lower is better; unknown: 0",
    example: "{attributeKey: RunningRequestsSize, algorithm: {type: linear_lower_is_better, normalization: {adaptiveRange: {}}}}",
    build: Some(build),
    ..Row::new(
        "endpoint-attribute-scorer",
        &[Kind::Scorer],
        Stability::Alpha,
        "Rates endpoints by any number about them.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let algorithm = b.params.object("algorithm");
    let normalization = algorithm.and_then(|a| a.object("normalization"));
    let fixed = normalization.and_then(|n| n.object("fixedRange"));
    let range = fixed.map(|f| (f.f64("min"), f.f64("max")));
    if let Some(both) = normalization.filter(|n| n.given("fixedRange") && n.given("adaptiveRange")) {
        b.fault_in(both, "adaptiveRange", "`normalization` takes `fixedRange` or `adaptiveRange`, not both");
    }
    if let Some((fixed, (min, max))) = fixed.zip(range).filter(|(_, (min, max))| min >= max) {
        b.fault_in(fixed, "max", &format!("`min` of `fixedRange` must be below `max`: {min} is not below {max}"));
    }
    Instance::scorer(EndpointAttributeScorer {
        attribute: EndpointAttribute::named(b, "attributeKey"),
        lower_is_better: algorithm.is_none_or(|a| a.str("type") == LOWER),
        range,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use proptest::prelude::*;

    fn scores(values: &[Option<f64>], lower_is_better: bool, range: Option<(f64, f64)>) -> Vec<f64> {
        let attribute = EndpointAttribute::new("load", "core-metrics-extractor");
        let bench = Bench::new(values.iter().enumerate().map(|(i, value)| {
            let e = endpoint(&format!("e{i}"));
            value.map_or(e.clone(), |v| e.attribute("load", "core-metrics-extractor", v))
        }));
        bench.scores(&EndpointAttributeScorer { attribute, lower_is_better, range })
    }

    #[test]
    fn an_adaptive_range_is_that_of_the_candidates_that_have_the_number() {
        assert_eq!(scores(&[Some(10.0), Some(20.0), None], true, None), [1.0, 0.0, 0.0]);
        assert_eq!(scores(&[Some(10.0), Some(20.0), Some(12.5)], false, None), [0.0, 1.0, 0.25]);
        assert_eq!(scores(&[Some(7.0), Some(7.0), None], true, None), [1.0, 1.0, 0.0]);
        assert_eq!(scores(&[None, None], true, None), [0.0, 0.0]);
    }

    #[test]
    fn a_fixed_range_holds_what_is_outside_of_it() {
        let range = Some((0.0, 100.0));
        assert_eq!(scores(&[Some(150.0), Some(25.0), Some(-3.0)], false, range), [1.0, 0.25, 0.0]);
        assert_eq!(scores(&[Some(150.0), Some(25.0), Some(-3.0)], true, range), [0.0, 0.75, 1.0]);
    }

    #[test]
    fn a_range_beyond_what_numbers_can_tell_scores_nothing_rather_than_no_number() {
        let scores = scores(&[Some(f64::MAX), Some(f64::MIN)], false, None);
        assert!(scores.iter().all(|s| (0.0..=1.0).contains(s)), "{scores:?}");
    }

    #[test]
    fn the_engines_gauges_go_by_their_names() {
        let bench = Bench::new([endpoint("a").waiting(1.0), endpoint("b").waiting(3.0), endpoint("c")]);
        let attribute = EndpointAttribute::new("WaitingQueueSize", "core-metrics-extractor");
        let scorer = EndpointAttributeScorer { attribute, lower_is_better: true, range: Some((0.0, 10.0)) };
        let scores = bench.scores(&scorer);
        assert_eq!((scores[0], scores[2]), (0.9, 0.0));
        assert!((scores[1] - 0.7).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn scores_stay_within_zero_and_one_and_in_order(values in prop::collection::vec(-1e300f64..1e300, 1..6)) {
            let known: Vec<Option<f64>> = values.iter().copied().map(Some).collect();
            let scores = scores(&known, false, None);
            for (v, s) in values.iter().zip(&scores) {
                prop_assert!((0.0..=1.0).contains(s));
                for (w, t) in values.iter().zip(&scores) {
                    prop_assert!(v < w || s >= t);
                }
            }
        }
    }
}
