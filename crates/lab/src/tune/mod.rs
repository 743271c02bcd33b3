//! Which configuration serves this traffic best? Successive halving: many candidates meet few seeds, the better half meets twice as many, and so on.
//!
//! [`Space`] says what may change, [`Candidate`] is one way to set it, [`Objective`] and [`Constraint`] what counts; [`Search`] asks for rounds and is told what
//! they came to. As with a race, the owner runs what a round asks for. Candidates of one round meet the same seeds, so that they are compared pair by pair. The
//! winner is judged by a [`Comparison`] on seeds, or on a part of the trace, that no round has seen: otherwise the best of many would look better than it is.

mod candidate;
mod comparison;
mod objective;
mod search;

pub use candidate::{Candidate, KNOBS, Knob, SCORERS, Space};
pub use comparison::{Comparison, Role, Verdict};
pub use objective::{Constraint, Objective};
pub(crate) use search::frontier;
pub use search::{Round, Search};
