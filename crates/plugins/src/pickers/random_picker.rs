//! `random-picker`: a uniform draw that ignores scores. Source: plugin specification 7.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_scheduling::Picker;

/// Draws uniformly.
#[derive(Debug)]
pub struct RandomPicker {
    /// How many to return.
    pub count: usize,
}

impl Picker for RandomPicker {
    fn pick(&self, totals: &[f64], rng: &mut fastrand::Rng, out: &mut Vec<usize>) {
        if self.count == 1 {
            out.extend((!totals.is_empty()).then(|| rng.usize(0..totals.len())));
        } else {
            // `choose_multiple` reserves room for as many as are asked for.
            let count = self.count.min(totals.len());
            out.extend(rng.choose_multiple(0..totals.len(), count));
            let start = out.len() - count;
            rng.shuffle(&mut out[start..]);
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: super::PARAMS,
    build: Some(build),
    ..Row::new("random-picker", &[Kind::Picker], Stability::Beta, "Draws uniformly, whatever the scores.")
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::picker(RandomPicker { count: super::count(b) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_candidate_has_the_same_chance_at_every_place() {
        let mut rng = fastrand::Rng::with_seed(3);
        for count in [1, 2] {
            let mut seen = [0u32; 4];
            for _ in 0..40_000 {
                let mut out = Vec::new();
                RandomPicker { count }.pick(&[9.0, 0.0, 1.0, f64::NAN], &mut rng, &mut out);
                assert_eq!(out.len(), count);
                seen[out[0]] += 1;
            }
            let chi: f64 = seen.iter().map(|&s| (f64::from(s) - 10_000.0).powi(2) / 10_000.0).sum();
            assert!(chi < 16.3, "{seen:?}");
        }
    }
}
