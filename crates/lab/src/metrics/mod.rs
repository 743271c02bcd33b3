//! What a run comes to, in figures, and what several runs say together.

mod interval;
mod summary;

pub use interval::{Estimate, estimate, paired};
pub use summary::{METRICS, Metric, Slo, Summary};
