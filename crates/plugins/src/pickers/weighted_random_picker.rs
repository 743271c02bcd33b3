//! `weighted-random-picker`: a draw in proportion to the sums, without replacement.
//!
//! A-Res (Efraimidis and Spirakis): each candidate gets the key `U^(1/score)`, and the highest keys win. Keys are compared as `ln(U) / score`, which does not
//! underflow for small scores. Candidates without a positive score come last, in random order; when nobody has one, the draw is uniform.
//! Source: plugin specification 7.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_scheduling::Picker;

/// Draws in proportion to the sums.
#[derive(Debug)]
pub struct WeightedRandomPicker {
    /// How many to return.
    pub count: usize,
}

fn key(u: f64, score: f64) -> f64 {
    if score > 0.0 { u.max(1e-10).ln() / score } else { f64::NEG_INFINITY }
}

impl Picker for WeightedRandomPicker {
    fn pick(&self, totals: &[f64], rng: &mut fastrand::Rng, out: &mut Vec<usize>) {
        let mut keyed: Vec<(f64, usize)> = totals.iter().enumerate().map(|(i, &t)| (key(rng.f64(), t), i)).collect();
        rng.shuffle(&mut keyed);
        keyed.sort_by(|a, b| b.0.total_cmp(&a.0));
        out.extend(keyed.into_iter().take(self.count).map(|(_, i)| i));
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: super::PARAMS,
    build: Some(build),
    ..Row::new("weighted-random-picker", &[Kind::Picker], Stability::Beta, "Draws in proportion to the weighted sums.")
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::picker(WeightedRandomPicker { count: super::count(b) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_the_published_example() {
        let keys = [key(0.5, 3.0), key(0.9, 1.0), key(0.8, 2.0)];
        for (got, want) in keys.iter().zip([0.7937f64, 0.9, 0.8944]) {
            assert!((got.exp() - want).abs() < 1e-4);
        }
    }

    #[test]
    fn a_candidate_is_drawn_in_proportion_to_its_score_however_small_the_scores() {
        for scale in [1.0, 1e-6] {
            let mut rng = fastrand::Rng::with_seed(11);
            let mut seen = [0f64; 4];
            for _ in 0..60_000 {
                let mut out = Vec::new();
                WeightedRandomPicker { count: 1 }.pick(&[3.0 * scale, scale, 2.0 * scale, 0.0], &mut rng, &mut out);
                seen[out[0]] += 1.0;
            }
            assert_eq!(seen[3], 0.0);
            let chi: f64 = seen[..3].iter().zip([30_000.0, 10_000.0, 20_000.0]).map(|(s, e)| (s - e).powi(2) / e).sum();
            assert!(chi < 13.8, "{seen:?}");
        }
    }

    #[test]
    fn without_positive_scores_the_draw_is_uniform() {
        let mut rng = fastrand::Rng::with_seed(5);
        let mut seen = [0f64; 3];
        for _ in 0..30_000 {
            let mut out = Vec::new();
            WeightedRandomPicker { count: 1 }.pick(&[0.0, -1.0, 0.0], &mut rng, &mut out);
            seen[out[0]] += 1.0;
        }
        let chi: f64 = seen.iter().map(|s| (s - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 13.8, "{seen:?}");
    }
}
