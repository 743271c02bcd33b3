//! `slo-headroom-tier-filter`: endpoints that are predicted to meet both latency objectives, or, now and then, the others.
//!
//! The positive tier is predicted to meet both (both headrooms 0 or more); everybody else is the negative one, endpoints without prediction among them.
//! Where both have members, a request goes to the negative tier with probability `epsilonExploreNeg`, so that it is learned how those fare, and else to the
//! positive one. With a single candidate, or without any prediction, nobody is dropped. Source: plugin specification 5.8.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::record::Reason;
use pointsman_scheduling::{ColumnId, Cycle, DataKind, Filter, LatencyPrediction, Scope};

/// Keeps one tier.
#[derive(Debug)]
pub struct SloHeadroomTierFilter {
    explore_negative: f64,
    predictions: Option<ColumnId<LatencyPrediction>>,
    salt: u64,
}

impl Filter for SloHeadroomTierFilter {
    fn filter(&self, cycle: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason)) {
        let Some(predictions) = self.predictions.and_then(|id| cycle.facts.column(id)) else { return };
        // An unknown headroom is not a number, and meets nothing.
        let positive = |c: usize| predictions.get(c).is_some_and(LatencyPrediction::meets_both);
        let met = scope.iter().filter(|(c, _)| positive(*c)).count();
        if met == 0 || met == scope.len() {
            return;
        }
        let explore = cycle.draws(self.salt).f64() < self.explore_negative;
        let reason = if explore {
            "this request explores endpoints that may miss an objective"
        } else {
            "not predicted to meet both objectives, which others are"
        };
        for (i, (c, _)) in scope.iter().enumerate() {
            if positive(c) == explore {
                drop(i, Reason::Text(reason));
            }
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "epsilonExploreNeg",
            ParamKind::FRACTION,
            "Share of the requests that go to endpoints which may miss an objective.",
        )
        .default("0.01"),
        Param::new("latencyPredictionInfoProducerName", ParamKind::String, "Producer of the predictions.")
            .default("\"predicted-latency-producer\""),
    ],
    needs: &[Need::optional(DataKind::LatencyPrediction, "latencyPredictionInfoProducerName")],
    build: Some(build),
    ..Row::new(
        "slo-headroom-tier-filter",
        &[Kind::Filter],
        Stability::Beta,
        "Keeps the endpoints that are predicted to meet both latency objectives, where there are any.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::filter(SloHeadroomTierFilter {
        explore_negative: b.params.f64("epsilonExploreNeg"),
        predictions: b.column("latencyPredictionInfoProducerName"),
        salt: b.salt(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use proptest::prelude::*;

    /// Candidates by name with their headrooms; `None`: no prediction.
    fn kept(candidates: &[(&str, Option<(f64, f64)>)], explore_negative: f64, seed: u64) -> Vec<String> {
        let bench = Bench::new(candidates.iter().map(|(name, _)| endpoint(name)));
        let (mut bench, id) = bench.columns(|c| c.column());
        let prediction = |headroom: &Option<(f64, f64)>| {
            headroom.map_or(LatencyPrediction::UNKNOWN, |(ttft, tpot)| LatencyPrediction {
                ttft_headroom_ms: ttft,
                tpot_headroom_ms: tpot,
                ..LatencyPrediction::default()
            })
        };
        bench.facts.fill(id, candidates.iter().map(|(_, h)| prediction(h)).collect());
        bench.seed = seed;
        bench.kept(&SloHeadroomTierFilter { explore_negative, predictions: Some(id), salt: 3 })
    }

    const MIXED: [(&str, Option<(f64, f64)>); 4] =
        [("a", Some((0.0, 0.0))), ("b", Some((10.0, -0.1))), ("c", None), ("d", Some((5.0, 5.0)))];

    #[test]
    fn a_headroom_of_zero_meets_its_objective_and_an_unknown_one_does_not() {
        assert_eq!(kept(&MIXED, 0.0, 1), ["a", "d"]);
        assert_eq!(kept(&MIXED, 1.0, 1), ["b", "c"]);
    }

    #[test]
    fn a_tier_without_members_leaves_the_other() {
        for explore in [0.0, 1.0] {
            assert_eq!(kept(&MIXED[..1], explore, 1), ["a"]);
            assert_eq!(kept(&MIXED[1..3], explore, 1), ["b", "c"]);
            assert_eq!(kept(&[("a", None), ("b", None)], explore, 1), ["a", "b"]);
            assert_eq!(kept(&[MIXED[0], MIXED[3]], explore, 1), ["a", "d"]);
        }
    }

    #[test]
    fn without_predictions_nobody_is_dropped() {
        let bench = Bench::new(["a", "b"].map(endpoint));
        assert_eq!(bench.kept(&SloHeadroomTierFilter { explore_negative: 1.0, predictions: None, salt: 3 }).len(), 2);
    }

    #[test]
    fn the_negative_tier_gets_its_share() {
        let explored = (0..10_000).filter(|&seed| kept(&MIXED, 0.1, seed) == ["b", "c"]).count();
        assert!((900..1100).contains(&explored), "{explored} of 10000");
    }

    proptest! {
        #[test]
        fn one_whole_tier_stays(
            headrooms in prop::collection::vec(prop::option::of((-9.0..9.0, -9.0..9.0)), 1..8),
            seed: u64,
        ) {
            let names: Vec<String> = (0..headrooms.len()).map(|i| format!("e{i}")).collect();
            let candidates: Vec<(&str, Option<(f64, f64)>)> =
                names.iter().map(|n| &**n).zip(headrooms.iter().copied()).collect();
            let kept = kept(&candidates, 0.5, seed);
            let tier = |meets: bool| -> Vec<String> {
                let of = |h: &Option<(f64, f64)>| h.is_some_and(|(ttft, tpot)| ttft >= 0.0 && tpot >= 0.0) == meets;
                candidates.iter().filter(|(_, h)| of(h)).map(|(name, _)| (*name).to_owned()).collect()
            };
            prop_assert!(!kept.is_empty() && (kept == tier(true) || kept == tier(false)));
        }
    }
}
