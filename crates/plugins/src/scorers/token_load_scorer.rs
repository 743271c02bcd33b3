//! `token-load-scorer`: few tokens in flight, counting those this request would add.
//!
//! `t` = tokens in flight + tokens of this prompt the endpoint would have to compute. `t <= 0` scores 1, otherwise `1 - min(t, T) / T` with
//! `T` = `queueThresholdTokens`. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{ColumnId, Cycle, DataKind, InFlightTokens, Scope, Scorer, UncachedTokens};

const DEFAULT_THRESHOLD: f64 = 4_194_304.0;

/// Prefers endpoints with few tokens in flight.
#[derive(Debug)]
pub struct TokenLoadScorer {
    threshold: f64,
    in_flight: Option<ColumnId<InFlightTokens>>,
    uncached: Option<ColumnId<UncachedTokens>>,
}

fn rate(tokens: u64, threshold: f64) -> f64 {
    if tokens == 0 { 1.0 } else { 1.0 - (tokens as f64).min(threshold) / threshold }
}

impl Scorer for TokenLoadScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let in_flight = self.in_flight.and_then(|id| cycle.facts.column(id));
        let uncached = self.uncached.and_then(|id| cycle.facts.column(id));
        for (out, (c, _)) in out.iter_mut().zip(scope.iter()) {
            let tokens = in_flight.and_then(|t| t.get(c)).map_or(0, |t| t.0)
                + uncached.and_then(|t| t.get(c)).map_or(0, |t| t.0);
            *out = rate(tokens, self.threshold);
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "queueThresholdTokens",
            ParamKind::INTEGER,
            "Tokens at which the score reaches 0; 0 or less means the default.",
        )
        .default("4194304"),
        Param::new("inFlightLoadProducerName", ParamKind::String, "Producer of the token counts.")
            .default("\"inflight-load-producer\""),
    ],
    needs: &[
        Need::named(DataKind::InFlightLoad, "inFlightLoadProducerName"),
        Need::named(DataKind::UncachedTokens, "inFlightLoadProducerName"),
    ],
    formula: "1 - min(t, T) / T, t = tokens in flight + uncached tokens of this prompt, T = queueThresholdTokens",
    build: Some(build),
    ..Row::new("token-load-scorer", &[Kind::Scorer], Stability::Beta, "Prefers endpoints with few tokens in flight.")
};

fn build(b: &mut Build<'_>) -> Instance {
    let threshold = b.params.i64("queueThresholdTokens") as f64;
    if threshold <= 0.0 {
        b.corrected("queueThresholdTokens", "4194304");
    }
    Instance::scorer(TokenLoadScorer {
        threshold: if threshold > 0.0 { threshold } else { DEFAULT_THRESHOLD },
        in_flight: b.column("inFlightLoadProducerName"),
        uncached: b.column("inFlightLoadProducerName"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_score_falls_linearly_to_the_threshold() {
        assert_eq!(rate(2_097_152, DEFAULT_THRESHOLD), 0.5);
        assert!((rate(120_000, DEFAULT_THRESHOLD) - 0.971_390).abs() < 1e-6);
        assert_eq!(rate(0, DEFAULT_THRESHOLD), 1.0);
        assert_eq!(rate(9_000_000, DEFAULT_THRESHOLD), 0.0);
    }
}
