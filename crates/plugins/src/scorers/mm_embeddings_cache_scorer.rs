//! `mm-embeddings-cache-scorer`: the share of a request's images, videos and sounds that an endpoint's encoder cache is believed to hold.
//!
//! `matched / total` by size. A request without such items scores 0 everywhere. Source: plugin specification 6.

use crate::build::{Build, Instance};
use crate::row::{Kind, Need, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::{ColumnId, Cycle, DataKind, EncoderMatch, Scope, Scorer};

/// Prefers endpoints that hold the items.
#[derive(Debug)]
pub struct MmEmbeddingsCacheScorer {
    matches: Option<ColumnId<EncoderMatch>>,
}

fn rate(m: &EncoderMatch) -> f64 {
    if m.total == 0 { 0.0 } else { m.matched as f64 / m.total as f64 }
}

impl Scorer for MmEmbeddingsCacheScorer {
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]) {
        let Some(matches) = self.matches.and_then(|id| cycle.facts.column(id)) else { return };
        for (out, (c, _)) in out.iter_mut().zip(scope.iter()) {
            *out = matches.get(c).map_or(0.0, rate);
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[Param::new("producerName", ParamKind::String, "Producer of the matches.")
        .default("\"mm-embeddings-cache-producer\"")],
    needs: &[Need::named(DataKind::EncoderMatch, "producerName")],
    formula: "matched / total, by size of the items",
    build: Some(build),
    ..Row::new(
        "mm-embeddings-cache-scorer",
        &[Kind::Scorer],
        Stability::Beta,
        "Prefers endpoints whose encoder cache holds the request's images, videos and sounds.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::scorer(MmEmbeddingsCacheScorer { matches: b.column("producerName") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};

    #[test]
    fn the_score_is_the_share_that_is_held() {
        let bench = Bench::new(["a", "b", "c"].map(endpoint));
        let (mut bench, id) = bench.columns(|c| c.column());
        let scorer = MmEmbeddingsCacheScorer { matches: Some(id) };
        assert_eq!(bench.scores(&scorer), [0.0; 3], "nothing was said");
        let held = |matched, total| EncoderMatch { matched, total };
        bench.facts.fill(id, vec![held(2, 3), held(3, 3), held(0, 0)]);
        assert_eq!(bench.scores(&scorer), [2.0 / 3.0, 1.0, 0.0]);
    }
}
