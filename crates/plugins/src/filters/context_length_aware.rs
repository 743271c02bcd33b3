//! `context-length-aware`: match the length of a prompt to the lengths that endpoints are set up for.
//!
//! An endpoint's label says which prompts it takes: `min-max`, in tokens, both inclusive. The score is highest for ranges that are narrow and have room left:
//! in range `0.3 + 0.7 * (0.7 / (1 + width / 10000) + 0.3 * (max - L) / width)`, 1 where the range is a single length; out of range
//! `0.3 / (1 + distance / 1000)`. Without the label it is 0.5, with one that is no range 0. With `enableFiltering` it also drops endpoints whose range the
//! prompt is not in, and those whose label is no range; endpoints without the label stay. A prompt of unknown length has 0 tokens.
//! Source: plugin specification 5.10 and 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_fleet::Endpoint;
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{Cycle, DataKind, Filter, Scope, Scorer};
use std::sync::Arc;

/// Matches prompts to ranges.
#[derive(Debug)]
pub struct ContextLengthAware {
    label: Arc<str>,
}

/// Lengths of prompts, in tokens; both ends belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    min: u64,
    max: u64,
}

impl Range {
    fn parse(label: &str) -> Option<Self> {
        let (min, max) = label.split_once('-')?;
        let range = Self { min: min.trim().parse().ok()?, max: max.trim().parse().ok()? };
        (range.min <= range.max).then_some(range)
    }

    fn holds(self, tokens: u64) -> bool {
        (self.min..=self.max).contains(&tokens)
    }

    fn rate(self, tokens: u64) -> f64 {
        if !self.holds(tokens) {
            let distance = if tokens < self.min { self.min - tokens } else { tokens - self.max };
            return 0.3 / (1.0 + distance as f64 / 1000.0);
        }
        let width = (self.max - self.min) as f64;
        if width == 0.0 {
            return 1.0;
        }
        let room = (self.max - tokens) as f64 / width;
        0.3 + 0.7 * (0.7 / (1.0 + width / 10_000.0) + 0.3 * room)
    }
}

impl ContextLengthAware {
    fn label<'a>(&self, endpoint: &'a Endpoint) -> Option<&'a str> {
        endpoint.meta.labels.get(&self.label)
    }
}

impl Scorer for ContextLengthAware {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let tokens = cycle.facts.tokens.unwrap_or(0);
        for (out, (_, candidate)) in out.iter_mut().zip(scope.iter()) {
            *out = match self.label(candidate.endpoint) {
                Some(label) => Range::parse(label).map_or(0.0, |range| range.rate(tokens)),
                None => 0.5,
            };
        }
    }
}

impl Filter for ContextLengthAware {
    fn filter(&self, cycle: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        let tokens = cycle.facts.tokens.unwrap_or(0);
        for (i, (_, candidate)) in scope.iter().enumerate() {
            let Some(label) = self.label(candidate.endpoint) else { continue };
            match Range::parse(label) {
                Some(range) if range.holds(tokens) => {}
                Some(Range { min, max }) => drop(i, Reason::ContextLength { tokens, min, max }),
                None => drop(i, Reason::LabelValue(Arc::clone(&self.label), label.into())),
            }
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("label", ParamKind::String, "Label that holds an endpoint's range, `min-max` in tokens.")
            .default("\"llm-d.ai/context-length-range\""),
        Param::new("enableFiltering", ParamKind::Bool, "Also drop endpoints whose range the prompt is not in.")
            .default("false"),
    ],
    needs: &[Need::required(DataKind::TokenizedPrompt)],
    formula: "in range: 0.3 + 0.7 * (0.7 / (1 + width / 10000) + 0.3 * (max - L) / width); else 0.3 / (1 + distance / 1000); no label: 0.5",
    example: "{enableFiltering: true}",
    build: Some(build),
    ..Row::new(
        "context-length-aware",
        &[Kind::Filter, Kind::Scorer],
        Stability::Beta,
        "Matches the length of a prompt to the lengths that endpoints are set up for.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let plugin = Arc::new(ContextLengthAware { label: b.params.str("label").into() });
    let filters = b.params.bool("enableFiltering");
    Instance { filter: if filters { Some(plugin.clone()) } else { None }, scorer: Some(plugin), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use proptest::prelude::*;

    const LABEL: &str = "llm-d.ai/context-length-range";

    fn plugin() -> ContextLengthAware {
        ContextLengthAware { label: LABEL.into() }
    }

    fn bench(tokens: Option<u64>) -> Bench {
        let labelled = |name, range| endpoint(name).label(LABEL, range);
        let mut bench = Bench::new([
            labelled("short", "0-2048"),
            labelled("long", "2049-8192"),
            endpoint("any"),
            labelled("words", "bad"),
            labelled("reversed", "8-4"),
            labelled("dashes", "0-4-8"),
            labelled("one", "300-300"),
        ]);
        bench.facts.tokens = tokens;
        bench
    }

    #[test]
    fn scores_are_those_of_the_specification() {
        for (range, tokens, want) in [
            ((0, 2048), 1000, 0.814_167),
            ((0, 8192), 1000, 0.753_714),
            ((0, 2048), 3000, 0.153_689),
            ((2048, 8192), 100, 0.101_764),
            ((0, 2048), 2048, 0.706_707),
        ] {
            let got = Range { min: range.0, max: range.1 }.rate(tokens);
            assert!((got - want).abs() < 1e-6, "{range:?} {tokens}: {got}");
        }
    }

    #[test]
    fn no_label_scores_a_half_and_one_that_is_no_range_nothing() {
        let scores = bench(Some(300)).scores(&plugin());
        assert!((scores[0] - 0.885_944).abs() < 1e-6, "{scores:?}");
        assert_eq!(scores[2..], [0.5, 0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn filtering_keeps_ranges_that_hold_the_prompt_and_endpoints_without_a_label() {
        assert_eq!(bench(Some(300)).kept(&plugin()), ["short", "any", "one"]);
        assert_eq!(bench(Some(2049)).kept(&plugin()), ["long", "any"]);
        assert_eq!(bench(None).kept(&plugin()), ["short", "any"], "unknown is 0 tokens");
    }

    proptest! {
        #[test]
        fn a_prompt_in_range_always_beats_one_outside(min in 0u64..1 << 40, width in 0u64..1 << 40, tokens in 0u64..1 << 42) {
            let range = Range { min, max: min + width };
            let score = range.rate(tokens);
            prop_assert!((0.0..=1.0).contains(&score));
            prop_assert_eq!(range.holds(tokens), score > 0.3);
        }

        #[test]
        fn any_label_is_read_without_a_panic(label in ".{0,40}") {
            if let Some(range) = Range::parse(&label) {
                prop_assert!(range.min <= range.max);
            }
        }
    }
}
