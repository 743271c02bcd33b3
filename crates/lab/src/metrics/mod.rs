//! What a run comes to, in figures, and what several runs say together.

mod course;
mod interval;
mod summary;

pub use course::{Course, Lines};
pub use interval::{Estimate, estimate, paired};
pub(crate) use summary::shown;
pub use summary::{METRICS, Metric, Slo, Summary, unserved};
