//! `prefix-cache-scorer`: the share of the prompt an endpoint is believed to hold.
//!
//! `ratio = matched / total` blocks; `length = min(1, matched * block / matchLengthScaleTokens)^2`; the score is
//! `w * length + (1 - w) * ratio` with `w` = `matchLengthWeight`. No match information, or no blocks, scores 0. The same plugin is called
//! `multicluster-prefix-cache-scorer` where the endpoints are pools in other clusters. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{ColumnId, Cycle, DataKind, PrefixMatch, Scope, Scorer};

/// Prefers endpoints that hold the prefix.
#[derive(Debug)]
pub struct PrefixCacheScorer {
    length_weight: f64,
    length_scale: f64,
    matches: Option<ColumnId<PrefixMatch>>,
}

impl PrefixCacheScorer {
    fn rate(&self, m: &PrefixMatch) -> f64 {
        if m.total == 0 {
            return 0.0;
        }
        if self.length_weight == 0.0 {
            return m.ratio();
        }
        let share = (f64::from(m.matched) * f64::from(m.block_tokens) / self.length_scale).min(1.0);
        self.length_weight * share * share + (1.0 - self.length_weight) * m.ratio()
    }
}

impl Scorer for PrefixCacheScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let Some(matches) = self.matches.and_then(|id| cycle.facts.column(id)) else { return };
        for (out, (c, _)) in out.iter_mut().zip(scope.iter()) {
            *out = matches.get(c).map_or(0.0, |m| self.rate(m));
        }
    }
}

const PARAMS: &[Param] = &[
    PREFIX_PRODUCER,
    Param::new(
        "matchLengthWeight",
        ParamKind::FRACTION,
        "Weight of the match's length against its share of the prompt.",
    )
    .default("0.0"),
    Param::new(
        "matchLengthScaleTokens",
        ParamKind::INTEGER,
        "Tokens of match at which the length counts in full; above 0 when the weight is.",
    )
    .default("8192"),
];

const NEEDS: &[Need] = &[Need::named(DataKind::PrefixMatch, "prefixMatchInfoProducerName")];
const FORMULA: &str = "w * min(1, matched * block / scale)^2 + (1 - w) * matched / total";

/// Its row.
pub const ROW: Row = Row {
    params: PARAMS,
    needs: NEEDS,
    formula: FORMULA,
    build: Some(build),
    ..Row::new(
        "prefix-cache-scorer",
        &[Kind::Scorer],
        Stability::Beta,
        "Prefers endpoints that hold the prompt's prefix.",
    )
};

/// The row of its name where the endpoints are pools in other clusters.
pub const MULTICLUSTER_ROW: Row = Row {
    params: PARAMS,
    needs: NEEDS,
    formula: FORMULA,
    build: Some(build),
    ..Row::new(
        "multicluster-prefix-cache-scorer",
        &[Kind::Scorer],
        Stability::Alpha,
        "Prefers pools that hold the prompt's prefix.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let length_weight = b.params.f64("matchLengthWeight");
    let length_scale = b.params.i64("matchLengthScaleTokens") as f64;
    if length_weight > 0.0 && length_scale <= 0.0 {
        b.fault("matchLengthScaleTokens", "`matchLengthScaleTokens` must be above 0 when `matchLengthWeight` is");
    }
    Instance::scorer(PrefixCacheScorer {
        length_weight,
        length_scale,
        matches: b.column("prefixMatchInfoProducerName"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scorer(length_weight: f64) -> PrefixCacheScorer {
        PrefixCacheScorer { length_weight, length_scale: 8192.0, matches: None }
    }

    #[test]
    fn the_score_is_the_matched_share() {
        let m = PrefixMatch { matched: 32, total: 40, block_tokens: 64 };
        assert!((scorer(0.0).rate(&m) - 0.8).abs() < 1e-12);
        assert!((scorer(0.5).rate(&m) - 0.43125).abs() < 1e-12);
    }

    #[test]
    fn a_prompt_without_blocks_scores_zero() {
        assert_eq!(scorer(0.5).rate(&PrefixMatch::default()), 0.0);
    }
}
