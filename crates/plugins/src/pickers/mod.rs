//! Pickers: which of the rated candidates are the answer.

pub mod max_score_picker;
pub mod random_picker;
pub mod weighted_random_picker;

use pointsman_config::{Param, ParamKind};

/// The one parameter that every picker takes.
const PARAMS: &[Param] =
    &[Param::new("maxNumOfEndpoints", ParamKind::INTEGER, "Endpoints returned, best first; 0 or less means 1.")
        .default("1")];

fn count(b: &mut crate::build::Build<'_>) -> usize {
    let count = b.params.i64("maxNumOfEndpoints");
    if count < 1 {
        b.corrected("maxNumOfEndpoints", "1");
    }
    count.max(1) as usize
}

#[cfg(test)]
mod tests {
    use super::{max_score_picker, random_picker, weighted_random_picker};
    use pointsman_scheduling::Picker;

    #[test]
    fn however_many_endpoints_are_asked_for_every_candidate_is_returned_once() {
        let count = i64::MAX as usize;
        let pickers: [&dyn Picker; 3] = [
            &max_score_picker::MaxScorePicker { count },
            &random_picker::RandomPicker { count },
            &weighted_random_picker::WeightedRandomPicker { count },
        ];
        let mut rng = fastrand::Rng::with_seed(1);
        for (i, picker) in pickers.into_iter().enumerate() {
            // What is already there stays in front.
            let mut out = vec![9];
            picker.pick(&[0.5, 0.0, 1.0], &mut rng, &mut out);
            assert_eq!(out[0], 9, "picker {i}");
            out[1..].sort_unstable();
            assert_eq!(out[1..], [0, 1, 2], "picker {i}");
            out.clear();
            picker.pick(&[], &mut rng, &mut out);
            assert!(out.is_empty(), "picker {i}");
        }
    }
}
