//! `max-score-picker`: the highest sums; among equals, a uniform draw. Source: plugin specification 7.

use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Stability};
use pointsman_scheduling::Picker;

/// Takes the highest sums.
#[derive(Debug)]
pub struct MaxScorePicker {
    /// How many to return.
    pub count: usize,
}

impl Picker for MaxScorePicker {
    fn pick(&self, totals: &[f64], rng: &mut fastrand::Rng, out: &mut Vec<usize>) {
        if self.count == 1 {
            out.extend(best(totals, rng));
            return;
        }
        let mut order: Vec<usize> = (0..totals.len()).collect();
        rng.shuffle(&mut order);
        order.sort_by(|&a, &b| totals[b].total_cmp(&totals[a]));
        out.extend(order.into_iter().take(self.count));
    }
}

/// One of the highest, each with the same chance: the k-th equal replaces the choice with chance 1/k.
fn best(totals: &[f64], rng: &mut fastrand::Rng) -> Option<usize> {
    let mut chosen = None;
    let mut highest = f64::NEG_INFINITY;
    let mut equals = 0;
    for (i, &total) in totals.iter().enumerate() {
        if chosen.is_none() || total > highest {
            (chosen, highest, equals) = (Some(i), total, 1);
        } else if total == highest {
            equals += 1;
            if rng.u32(0..equals) == 0 {
                chosen = Some(i);
            }
        }
    }
    chosen
}

/// Its row.
pub const ROW: Row = Row {
    params: super::PARAMS,
    build: Some(build),
    ..Row::new(
        "max-score-picker",
        &[Kind::Picker],
        Stability::Beta,
        "Takes the highest weighted sums; among equals, a uniform draw.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    Instance::picker(MaxScorePicker { count: super::count(b) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(totals: &[f64], count: usize, seed: u64) -> Vec<usize> {
        let mut out = Vec::new();
        MaxScorePicker { count }.pick(totals, &mut fastrand::Rng::with_seed(seed), &mut out);
        out
    }

    #[test]
    fn the_highest_sum_wins() {
        assert_eq!(pick(&[3.0, 5.6, 1.7], 1, 1), [1]);
        assert_eq!(pick(&[3.0, 5.6, 1.7], 2, 1), [1, 0]);
        assert_eq!(pick(&[3.0, 5.6, 1.7], 9, 1), [1, 0, 2]);
        assert_eq!(pick(&[-1.0, -2.0], 1, 1), [0]);
        assert!(pick(&[], 1, 1).is_empty());
    }

    #[test]
    fn equals_are_drawn_uniformly() {
        let mut seen = [0u32; 4];
        let mut rng = fastrand::Rng::with_seed(7);
        for count in [1, 2] {
            seen.fill(0);
            for _ in 0..30_000 {
                let mut out = Vec::new();
                MaxScorePicker { count }.pick(&[1.0, 0.5, 1.0, 1.0], &mut rng, &mut out);
                seen[out[0]] += 1;
            }
            assert_eq!(seen[1], 0);
            // Chi-square with two degrees of freedom, 0.1 %.
            let chi: f64 = [0, 2, 3].iter().map(|&i| (f64::from(seen[i]) - 10_000.0).powi(2) / 10_000.0).sum();
            assert!(chi < 13.8, "{seen:?}");
        }
    }
}
