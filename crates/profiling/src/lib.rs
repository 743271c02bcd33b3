//! CPU and heap profiles of this process, gzipped, in pprof's format: `go tool pprof` and every viewer of such files read them.
//!
//! [`cpu`] samples where the process spends its time, for as long as it is asked to and not a moment longer. [`heap`] tells what the heap holds and who
//! allocated it. The allocator samples for that, one allocation in half a MiB, from the start where it is told to, else while a profile is taken: it costs 2 % of
//! the instructions of a decision, and some more time.
//!
//! Both are answers to an operator's question. Neither is on a request's way.

mod cpu;
mod error;
mod format;
mod heap;

pub use cpu::{LONGEST, cpu};
pub use error::ProfilingError;
pub use heap::heap;

/// Lets go of the tables of symbols that naming the functions of a profile has read: they are as large as the program's debug information.
fn forget_symbols() {
    backtrace::clear_symbol_cache();
}
