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
