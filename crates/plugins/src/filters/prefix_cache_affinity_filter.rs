//! `prefix-cache-affinity-filter`: keep the endpoints that hold most of the prompt, as long as they do not cost too much time.
//!
//! Sticky endpoints are believed to hold at least `affinityThreshold` of the prompt's blocks. They alone stay, unless nobody is sticky, the request is one of
//! those that explore (`explorationProbability`), or the quickest of them would answer more than `maxTTFTPenaltyMs` later than the quickest of the others
//! (0: never asked). Time to first token is `tokens in flight / peakPrefillThroughput`, or what a latency predictor says; without prediction it is endless.
//! Source: plugin specification 5.5.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{ColumnId, Cycle, DataKind, Filter, InFlightTokens, LatencyPrediction, PrefixMatch, Scope};

/// Keeps endpoints that hold the prefix.
#[derive(Debug)]
pub struct PrefixCacheAffinityFilter {
    threshold: f64,
    exploration: f64,
    max_penalty_ms: f64,
    ttft: Ttft,
    matches: Option<ColumnId<PrefixMatch>>,
    salt: u64,
}

/// Where the time to first token comes from.
#[derive(Debug)]
enum Ttft {
    /// The tokens before this request, at the highest speed at which prompts are computed.
    Prefill { tokens_per_second: f64, in_flight: Option<ColumnId<InFlightTokens>> },
    /// A latency predictor.
    Predicted(Option<ColumnId<LatencyPrediction>>),
}

impl Ttft {
    fn ms(&self, cycle: &Cycle<'_>, candidate: usize) -> f64 {
        match self {
            Self::Prefill { tokens_per_second, in_flight } => {
                let tokens = in_flight.and_then(|id| cycle.facts.column(id)).and_then(|c| c.get(candidate));
                tokens.map_or(0.0, |t| t.0 as f64 / tokens_per_second * 1000.0)
            }
            Self::Predicted(predictions) => {
                let predicted = predictions.and_then(|id| cycle.facts.column(id)).and_then(|c| c.get(candidate));
                predicted.filter(|p| p.is_known()).map_or(f64::MAX, |p| p.ttft_ms)
            }
        }
    }
}

impl PrefixCacheAffinityFilter {
    /// Whether waiting for the sticky ones would take too long.
    fn too_slow(&self, cycle: &Cycle<'_>, scope: Scope<'_>, share: impl Fn(usize) -> f64) -> bool {
        let (mut sticky, mut others) = (f64::INFINITY, f64::INFINITY);
        for (c, _) in scope.iter() {
            let best = if share(c) >= self.threshold { &mut sticky } else { &mut others };
            *best = best.min(self.ttft.ms(cycle, c));
        }
        others.is_finite() && sticky - others > self.max_penalty_ms
    }
}

impl Filter for PrefixCacheAffinityFilter {
    fn filter(&self, cycle: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        if scope.len() <= 1 || self.threshold <= 0.0 {
            return;
        }
        if self.exploration > 0.0 && cycle.draws(self.salt).f64() < self.exploration {
            return;
        }
        let matches = self.matches.and_then(|id| cycle.facts.column(id));
        let share = |c: usize| matches.and_then(|m| m.get(c)).map_or(0.0, PrefixMatch::ratio);
        if !scope.iter().any(|(c, _)| share(c) >= self.threshold) {
            return;
        }
        if self.max_penalty_ms > 0.0 && self.too_slow(cycle, scope, share) {
            return;
        }
        for (i, (c, _)) in scope.iter().enumerate() {
            let share = share(c);
            if share < self.threshold {
                drop(i, Reason::PrefixShare { share, wanted: self.threshold });
            }
        }
    }
}

const AT_MOST_ONE: ParamKind = ParamKind::Number { min: None, max: Some(1.0) };

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "affinityThreshold",
            AT_MOST_ONE,
            "Share of the prompt that a sticky endpoint holds, at most 1; 0 or less: nobody is dropped.",
        )
        .default("0.80"),
        Param::new("explorationProbability", ParamKind::FRACTION, "Share of the requests that may go anywhere.")
            .default("0"),
        Param::new(
            "maxTTFTPenaltyMs",
            ParamKind::NON_NEGATIVE,
            "Milliseconds that the quickest sticky endpoint may be behind the quickest other one; 0: any number.",
        )
        .default("18000"),
        Param::new(
            "ttftSource",
            ParamKind::Enum(&["prefillThroughput", "latencyPredictor"]),
            "Where the time to first token comes from.",
        )
        .default("\"prefillThroughput\""),
        Param::new(
            "peakPrefillThroughput",
            ParamKind::NON_NEGATIVE,
            "Tokens per second of prompt that an engine computes at best, for `prefillThroughput`.",
        )
        .default("15928"),
        PREFIX_PRODUCER,
        Param::new("latencyPredictionInfoProducerName", ParamKind::String, "Producer of the predictions.")
            .default("\"predicted-latency-producer\""),
        Param::new("inFlightLoadProducerName", ParamKind::String, "Producer of the tokens in flight.")
            .default("\"inflight-load-producer\""),
    ],
    needs: &[
        Need::named(DataKind::PrefixMatch, "prefixMatchInfoProducerName"),
        Need::named(DataKind::InFlightLoad, "inFlightLoadProducerName"),
        Need::optional(DataKind::LatencyPrediction, "latencyPredictionInfoProducerName"),
    ],
    formula: "sticky: matched / total >= affinityThreshold; all stay when best TTFT(sticky) - best TTFT(others) > maxTTFTPenaltyMs",
    example: "{affinityThreshold: 0.9, explorationProbability: 0.01}",
    build: Some(build),
    ..Row::new(
        "prefix-cache-affinity-filter",
        &[Kind::Filter],
        Stability::Beta,
        "Keeps the endpoints that hold most of the prompt, unless they would answer much later.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let max_penalty_ms = b.params.f64("maxTTFTPenaltyMs");
    let tokens_per_second = b.params.f64("peakPrefillThroughput");
    let ttft = if b.params.str("ttftSource") == "latencyPredictor" {
        Ttft::Predicted(b.column("latencyPredictionInfoProducerName"))
    } else {
        if tokens_per_second == 0.0 && max_penalty_ms > 0.0 {
            b.fault(
                "peakPrefillThroughput",
                "`peakPrefillThroughput` must be above 0 while `maxTTFTPenaltyMs` is and `ttftSource` is `prefillThroughput`",
            );
        }
        Ttft::Prefill { tokens_per_second, in_flight: b.column("inFlightLoadProducerName") }
    };
    Instance::filter(PrefixCacheAffinityFilter {
        threshold: b.params.f64("affinityThreshold"),
        exploration: b.params.f64("explorationProbability"),
        max_penalty_ms,
        ttft,
        matches: b.column("prefixMatchInfoProducerName"),
        salt: b.salt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use proptest::prelude::*;

    struct Tried {
        bench: Bench,
        filter: PrefixCacheAffinityFilter,
    }

    /// Endpoints with the share they hold (in tenths) and the tokens in flight to them, under the default parameters.
    fn tried(endpoints: &[(&str, u32, u64)]) -> Tried {
        let bench = Bench::new(endpoints.iter().map(|(name, ..)| endpoint(name)));
        let (mut bench, (matches, in_flight)) = bench.columns(|c| (c.column::<PrefixMatch>(), c.column()));
        let matched = |&(_, matched, _): &(&str, u32, u64)| PrefixMatch { matched, total: 10, block_tokens: 64 };
        bench.facts.fill(matches, endpoints.iter().map(matched).collect());
        bench.facts.fill(in_flight, endpoints.iter().map(|e| InFlightTokens(e.2)).collect());
        let filter = PrefixCacheAffinityFilter {
            threshold: 0.8,
            exploration: 0.0,
            max_penalty_ms: 18_000.0,
            ttft: Ttft::Prefill { tokens_per_second: 15_928.0, in_flight: Some(in_flight) },
            matches: Some(matches),
            salt: 7,
        };
        Tried { bench, filter }
    }

    impl Tried {
        fn kept(&self) -> Vec<String> {
            self.bench.kept(&self.filter)
        }
    }

    #[test]
    fn sticky_endpoints_stay_alone_until_they_are_too_slow() {
        // The specification's example: 25 113 ms against 3 139 ms is too much, 18 835 ms is not.
        assert_eq!(tried(&[("s", 8, 400_000), ("n", 7, 50_000)]).kept(), ["s", "n"]);
        assert_eq!(tried(&[("s", 8, 300_000), ("n", 7, 50_000)]).kept(), ["s"]);
    }

    #[test]
    fn the_quickest_of_each_side_counts() {
        assert_eq!(tried(&[("s", 9, 900_000), ("t", 8, 0), ("n", 0, 0)]).kept(), ["s", "t"]);
        assert_eq!(tried(&[("s", 9, 900_000), ("n", 0, 800_000), ("o", 0, 0)]).kept(), ["s", "n", "o"]);
    }

    #[test]
    fn nobody_is_dropped_when_nobody_is_sticky_or_the_threshold_is_zero() {
        assert_eq!(tried(&[("a", 7, 0), ("b", 0, 0)]).kept(), ["a", "b"]);
        let mut t = tried(&[("a", 9, 0), ("b", 0, 0)]);
        t.filter.threshold = 0.0;
        assert_eq!(t.kept(), ["a", "b"]);
        t.filter.threshold = 0.8;
        t.filter.matches = None;
        assert_eq!(t.kept(), ["a", "b"], "without matches");
    }

    #[test]
    fn without_a_penalty_sticky_endpoints_are_never_too_slow() {
        let mut t = tried(&[("s", 8, 9_000_000), ("n", 0, 0)]);
        t.filter.max_penalty_ms = 0.0;
        assert_eq!(t.kept(), ["s"]);
    }

    #[test]
    fn without_prediction_every_endpoint_is_equally_late() {
        let mut t = tried(&[("s", 8, 9_000_000), ("n", 0, 0)]);
        t.filter.ttft = Ttft::Predicted(None);
        assert_eq!(t.kept(), ["s"]);
    }

    #[test]
    fn predictions_take_the_place_of_the_estimate() {
        let t = tried(&[("s", 8, 0), ("n", 0, 0)]);
        let (bench, id) = t.bench.columns(|c| (c.column::<PrefixMatch>(), c.column::<LatencyPrediction>()));
        let mut t = Tried { bench, ..t };
        let holds = |matched| PrefixMatch { matched, total: 10, block_tokens: 64 };
        t.bench.facts.fill(id.0, vec![holds(8), holds(0)]);
        t.filter.ttft = Ttft::Predicted(Some(id.1));
        for (ttft_ms, kept) in [(18_100.0, &["s"][..]), (18_200.0, &["s", "n"])] {
            let predicted = |ttft_ms| LatencyPrediction { ttft_ms, ..LatencyPrediction::default() };
            t.bench.facts.fill(id.1, vec![predicted(ttft_ms), predicted(150.0)]);
            assert_eq!(t.kept(), kept);
            t.bench.facts.fill(id.1, vec![LatencyPrediction::UNKNOWN, LatencyPrediction::UNKNOWN]);
            assert_eq!(t.kept(), ["s"]);
        }
    }

    #[test]
    fn some_requests_explore() {
        let mut t = tried(&[("s", 10, 0), ("n", 0, 0)]);
        t.filter.exploration = 0.25;
        let explored = (0..4000).filter(|&seed| {
            t.bench.seed = seed;
            t.kept().len() == 2
        });
        let explored = explored.count();
        assert!((900..1100).contains(&explored), "{explored} of 4000");
    }

    proptest! {
        #[test]
        fn somebody_always_stays_and_who_holds_enough_is_never_dropped(
            endpoints in prop::collection::vec((0u32..=10, 0u64..1_000_000), 1..6),
        ) {
            let names: Vec<String> = (0..endpoints.len()).map(|i| format!("e{i}")).collect();
            let made: Vec<(&str, u32, u64)> =
                names.iter().zip(&endpoints).map(|(name, (matched, tokens))| (&**name, *matched, *tokens)).collect();
            let kept = tried(&made).kept();
            prop_assert!(!kept.is_empty());
            for (name, matched, _) in made {
                prop_assert!(matched < 8 || kept.iter().any(|k| k == name));
            }
        }
    }
}
