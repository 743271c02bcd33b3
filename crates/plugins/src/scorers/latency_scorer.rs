//! `latency-scorer`: by how far an endpoint is predicted to stay within the latency objectives, or to miss them.
//!
//! Of the endpoints with a prediction only the best group scores, the others get 0: those that meet both objectives (headrooms 0 or more), rated by
//! `headroomSelectionStrategy`; else the idle ones (nothing on its way there through this router); else those that miss only the time per output token; else
//! those that miss only the time to first token; else all. Where all miss, the least headroom is best: the smallest miss.
//!
//! In a group each absolute headroom is brought into 0 to 1 over the group (0.5 where all are equal; the other objective then takes its weight), and
//! `c = ttftWeight * ttft + tpotWeight * tpot` with weights that sum to 1. `least` scores `floor(100 * (1 - c)) + 1` hundredths, `most`
//! `floor(100 * c) + 1`, at most 1.
//!
//! An endpoint without prediction is unknown, rather than just within its objectives: it scores the composite of free KV cache, queue (relative to the
//! longest) and share of the prompt that it holds, weighted and rounded to hundredths. A gauge that is unknown counts 0 there, or 1 where nobody's is known.
//! Source: plugin specification 6 and its `Wart:`.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{Candidate, ColumnId, Cycle, DataKind, LatencyPrediction, PrefixMatch, Scope, Scorer};

/// Which headroom is better among endpoints that meet both objectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preferred {
    /// The least: fill endpoints up.
    Least,
    /// The most: spread.
    Most,
}

/// Rates endpoints by predicted headroom.
#[derive(Debug)]
pub struct LatencyScorer {
    /// Of time to first token and time per output token; they sum to 1.
    weights: (f64, f64),
    preferred: Preferred,
    composite: Composite,
    predictions: Option<ColumnId<LatencyPrediction>>,
    matches: Option<ColumnId<PrefixMatch>>,
}

/// Weights of what stands in for a prediction; they sum to 1.
#[derive(Clone, Copy, Debug)]
struct Composite {
    kv: f64,
    queue: f64,
    prefix: f64,
}

impl Composite {
    fn new(kv: f64, queue: f64, prefix: f64) -> Self {
        let sum = kv + queue + prefix;
        if sum > 0.0 {
            Self { kv: kv / sum, queue: queue / sum, prefix: prefix / sum }
        } else {
            Self { kv: 1.0, queue: 0.0, prefix: 0.0 }
        }
    }
}

/// What the composite compares a candidate with.
struct Field<'a> {
    longest_queue: Option<f64>,
    some_kv_known: bool,
    matches: Option<&'a [PrefixMatch]>,
}

impl<'a> Field<'a> {
    fn of(scope: Scope<'_>, matches: Option<&'a [PrefixMatch]>) -> Self {
        Self {
            longest_queue: scope.iter().filter_map(|(_, c)| c.waiting()).reduce(f64::max),
            some_kv_known: scope.iter().any(|(_, c)| c.kv_usage().is_some()),
            matches,
        }
    }

    fn rate(&self, weights: Composite, c: usize, candidate: &Candidate<'_>) -> f64 {
        let free = match candidate.kv_usage() {
            Some(usage) => 1.0 - usage,
            None => f64::from(!self.some_kv_known),
        };
        let queue = match (candidate.waiting(), self.longest_queue) {
            (Some(queue), Some(longest)) if longest > 0.0 => (longest - queue) / longest,
            (Some(_), _) => 1.0,
            (None, longest) => f64::from(longest.is_none()),
        };
        let prefix = self.matches.and_then(|m| m.get(c)).map_or(0.0, PrefixMatch::ratio);
        let sum = weights.kv * free + weights.queue * queue + weights.prefix * prefix;
        ((100.0 * sum).round() / 100.0).clamp(0.0, 1.0)
    }
}

/// Lowest and highest absolute headroom of a group.
#[derive(Clone, Copy)]
struct Spread {
    min: f64,
    max: f64,
}

impl Spread {
    const NONE: Self = Self { min: f64::INFINITY, max: f64::NEG_INFINITY };

    fn with(self, headroom: f64) -> Self {
        Self { min: self.min.min(headroom.abs()), max: self.max.max(headroom.abs()) }
    }

    fn is_flat(self) -> bool {
        self.max - self.min <= 1e-9
    }

    fn place(self, headroom: f64) -> f64 {
        if self.is_flat() { 0.5 } else { (headroom.abs() - self.min) / (self.max - self.min) }
    }
}

impl LatencyScorer {
    /// Rates the endpoints that `belongs` takes; `false` when there are none.
    fn rate_group(
        &self,
        group: &mut Group<'_, '_>,
        preferred: Preferred,
        belongs: impl Fn(&LatencyPrediction) -> bool,
    ) -> bool {
        let members = || group.predicted().filter(|(_, p)| belongs(p));
        let (mut ttft, mut tpot) = (Spread::NONE, Spread::NONE);
        for (_, p) in members() {
            (ttft, tpot) = (ttft.with(p.ttft_headroom_ms), tpot.with(p.tpot_headroom_ms));
        }
        if ttft.max < ttft.min {
            return false;
        }
        let (alpha, beta) = match (ttft.is_flat(), tpot.is_flat()) {
            (true, false) => (0.0, 1.0),
            (false, true) => (1.0, 0.0),
            _ => self.weights,
        };
        let rate = |p: &LatencyPrediction| {
            let c = alpha * ttft.place(p.ttft_headroom_ms) + beta * tpot.place(p.tpot_headroom_ms);
            let share = if preferred == Preferred::Most { c } else { 1.0 - c };
            (((100.0 * share).trunc() + 1.0) / 100.0).min(1.0)
        };
        let Group { scope, predictions, out } = group;
        for (out, (c, _)) in out.iter_mut().zip(scope.iter()) {
            if let Some(p) = predictions.get(c).filter(|p| p.is_known() && belongs(p)) {
                *out = rate(p);
            }
        }
        true
    }

    fn rate_predicted(&self, mut group: Group<'_, '_>) {
        let misses_ttft = |p: &LatencyPrediction| p.ttft_headroom_ms < 0.0;
        let misses_tpot = |p: &LatencyPrediction| p.tpot_headroom_ms < 0.0;
        let g = &mut group;
        let _ = self.rate_group(g, self.preferred, LatencyPrediction::meets_both)
            || self.rate_group(g, Preferred::Least, |p| p.dispatched == 0)
            || self.rate_group(g, Preferred::Least, |p| misses_tpot(p) && !misses_ttft(p))
            || self.rate_group(g, Preferred::Least, |p| misses_ttft(p) && !misses_tpot(p))
            || self.rate_group(g, Preferred::Least, |_| true);
    }
}

/// The candidates with their predictions and scores.
struct Group<'a, 'b> {
    scope: Scope<'a>,
    predictions: &'a [LatencyPrediction],
    out: &'b mut [f64],
}

impl<'a> Group<'a, '_> {
    fn predicted(&self) -> impl Iterator<Item = (usize, &'a LatencyPrediction)> {
        let predictions = self.predictions;
        let known = move |c: usize| predictions.get(c).filter(|p| p.is_known());
        self.scope.kept.iter().filter_map(move |&c| Some((c as usize, known(c as usize)?)))
    }
}

impl Scorer for LatencyScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let predictions = self.predictions.and_then(|id| cycle.facts.column(id)).unwrap_or_default();
        let field = Field::of(scope, self.matches.and_then(|id| cycle.facts.column(id)));
        for (out, (c, candidate)) in out.iter_mut().zip(scope.iter()) {
            if !predictions.get(c).is_some_and(LatencyPrediction::is_known) {
                *out = field.rate(self.composite, c, candidate);
            }
        }
        self.rate_predicted(Group { scope, predictions, out });
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("ttftWeight", ParamKind::NUMBER, "Weight of the time to first token.").default("0.8"),
        Param::new("tpotWeight", ParamKind::NUMBER, "Weight of the time per output token.").default("0.2"),
        Param::new(
            "headroomSelectionStrategy",
            ParamKind::Enum(&["least", "most"]),
            "Which headroom is better among endpoints that meet both objectives: `least` fills them up, `most` spreads.",
        )
        .default("\"least\""),
        Param::new("compositeKVWeight", ParamKind::NUMBER, "Weight of free KV cache where nothing is predicted.")
            .default("1"),
        Param::new("compositeQueueWeight", ParamKind::NUMBER, "Weight of the queue where nothing is predicted.")
            .default("1"),
        Param::new(
            "compositePrefixWeight",
            ParamKind::NUMBER,
            "Weight of the share of the prompt that is held where nothing is predicted.",
        )
        .default("1"),
        Param::new("latencyPredictionInfoProducerName", ParamKind::String, "Producer of the predictions.")
            .default("\"predicted-latency-producer\""),
        PREFIX_PRODUCER,
    ],
    needs: &[
        Need::required(DataKind::EngineMetrics),
        Need::named(DataKind::PrefixMatch, "prefixMatchInfoProducerName"),
        Need::optional(DataKind::LatencyPrediction, "latencyPredictionInfoProducerName"),
    ],
    formula: "best group only: (floor(100 * (1 - c)) + 1) / 100, c = weighted headroom over the group; no prediction: weighted free KV, queue, prefix",
    build: Some(build),
    ..Row::new(
        "latency-scorer",
        &[Kind::Scorer],
        Stability::Beta,
        "Rates endpoints by how far they are predicted to stay within the latency objectives.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let (ttft, tpot) = (b.params.f64("ttftWeight"), b.params.f64("tpotWeight"));
    let sum = ttft + tpot;
    let [kv, queue, prefix] =
        ["compositeKVWeight", "compositeQueueWeight", "compositePrefixWeight"].map(|param| b.params.f64(param));
    Instance::scorer(LatencyScorer {
        weights: if sum > 0.0 { (ttft / sum, tpot / sum) } else { (1.0, 0.0) },
        preferred: if b.params.str("headroomSelectionStrategy") == "most" { Preferred::Most } else { Preferred::Least },
        composite: Composite::new(kv, queue, prefix),
        predictions: b.column("latencyPredictionInfoProducerName"),
        matches: b.column("prefixMatchInfoProducerName"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, Made, endpoint};
    use proptest::prelude::*;

    fn miss(ttft: f64, tpot: f64, dispatched: u64) -> LatencyPrediction {
        LatencyPrediction { ttft_headroom_ms: ttft, tpot_headroom_ms: tpot, dispatched, ..LatencyPrediction::default() }
    }

    /// Scores under the default weights; `None`: no prediction.
    fn scores(made: Vec<Made>, predictions: &[Option<LatencyPrediction>], preferred: Preferred) -> Vec<f64> {
        let (mut bench, ids) = Bench::new(made).columns(|c| (c.column(), c.column()));
        let held = |i: usize| PrefixMatch { matched: i as u32 + 1, total: 2, block_tokens: 64 };
        bench.facts.fill(ids.0, predictions.iter().map(|p| p.unwrap_or(LatencyPrediction::UNKNOWN)).collect());
        bench.facts.fill(ids.1, (0..predictions.len()).map(|i| held(i.min(1))).collect());
        let scorer = LatencyScorer {
            weights: (0.8, 0.2),
            preferred,
            composite: Composite::new(1.0, 1.0, 1.0),
            predictions: Some(ids.0),
            matches: Some(ids.1),
        };
        bench.scores(&scorer)
    }

    fn predicted(predictions: &[LatencyPrediction], preferred: Preferred) -> Vec<f64> {
        let made = (0..predictions.len()).map(|i| endpoint(&format!("e{i}"))).collect();
        scores(made, &predictions.iter().copied().map(Some).collect::<Vec<_>>(), preferred)
    }

    #[test]
    fn headrooms_within_both_objectives_are_rated_by_the_strategy() {
        let within = [miss(200.0, 10.0, 1), miss(50.0, 30.0, 1), miss(120.0, 20.0, 1)];
        assert_eq!(predicted(&within, Preferred::Least), [0.20, 0.81, 0.53]);
        assert_eq!(predicted(&within, Preferred::Most), [0.81, 0.21, 0.48]);
    }

    #[test]
    fn who_misses_an_objective_scores_nothing_beside_who_meets_both() {
        let mixed = [miss(10.0, 10.0, 1), miss(-1.0, 50.0, 0), miss(0.0, 0.0, 1)];
        let scores = predicted(&mixed, Preferred::Least);
        assert!(scores[0] > 0.0 && scores[2] > scores[0], "{scores:?}");
        assert_eq!(scores[1], 0.0);
    }

    #[test]
    fn where_all_miss_the_smallest_miss_is_best() {
        assert_eq!(predicted(&[miss(-100.0, -5.0, 1), miss(-400.0, -5.0, 1)], Preferred::Most), [1.0, 0.01]);
    }

    #[test]
    fn where_all_miss_idle_endpoints_come_first_and_then_those_that_miss_one_objective() {
        let (both, ttft, tpot) = (miss(-1.0, -1.0, 1), miss(-9.0, 1.0, 1), miss(1.0, -9.0, 1));
        let best = |predictions: &[LatencyPrediction]| {
            let scores = predicted(predictions, Preferred::Least);
            scores.iter().map(|s| *s > 0.0).collect::<Vec<_>>()
        };
        assert_eq!(best(&[both, ttft, tpot, miss(-900.0, -900.0, 0)]), [false, false, false, true]);
        assert_eq!(best(&[both, ttft, tpot]), [false, false, true]);
        assert_eq!(best(&[both, ttft]), [false, true]);
        assert_eq!(best(&[both, both]), [true, true]);
    }

    #[test]
    fn without_any_prediction_the_composite_decides() {
        // The specification's example; the endpoints hold half of the prompt, and all of it.
        let made = vec![endpoint("a").kv(0.2).waiting(0.0), endpoint("b").kv(0.6).waiting(4.0)];
        assert_eq!(scores(made, &[None, None], Preferred::Least), [0.77, 0.47]);
    }

    #[test]
    fn an_endpoint_without_prediction_scores_the_composite_and_not_a_headroom_of_zero() {
        let made = || vec![endpoint("a").kv(0.2).waiting(0.0), endpoint("b").kv(0.6).waiting(4.0)];
        assert_eq!(scores(made(), &[Some(miss(5.0, 5.0, 1)), None], Preferred::Least), [0.51, 0.47]);
        assert_eq!(scores(made(), &[None, Some(miss(-5.0, -5.0, 1))], Preferred::Least), [0.77, 0.51]);
    }

    #[test]
    fn unknown_gauges_do_not_look_idle() {
        let made = vec![endpoint("a"), endpoint("b").kv(0.9).waiting(9.0)];
        let scores = scores(made, &[None, None], Preferred::Least);
        assert_eq!(scores[0], 0.17, "only what it holds of the prompt counts");
    }

    proptest! {
        #[test]
        fn a_score_is_from_zero_to_one_and_somebody_scores(
            headrooms in prop::collection::vec((-1e12f64..1e12, -1e12f64..1e12, 0u64..2), 1..8),
            most: bool,
        ) {
            let predictions: Vec<LatencyPrediction> = headrooms.iter().map(|h| miss(h.0, h.1, h.2)).collect();
            let scores = predicted(&predictions, if most { Preferred::Most } else { Preferred::Least });
            prop_assert!(scores.iter().all(|s| (0.0..=1.0).contains(s)));
            prop_assert!(scores.iter().any(|s| *s > 0.0));
        }
    }
}
