//! The laboratory: which policy serves this traffic best, on this fleet?
//!
//! A [`Workload`](workload::Workload) is a list of timed requests. [`fleet::run`] plays it to simulated engines ([`pointsman_sim`]) under a virtual
//! clock and asks a [`Policy`](policy::Policy) where each request goes. One of the policies is the production router with any
//! configuration ([`policy::Production`]): the same code that serves real traffic, with time injected. What became of the requests is summed up in
//! [`metrics`]; [`race`] compares policies over seeds.
//!
//! Everything follows from the seed: one seed, one result, on every machine. Nothing here does I/O, spawns threads or reads a clock; a race is a list of
//! jobs that its owner runs as it likes, on as many cores as it has.

pub mod fleet;
pub mod metrics;
pub mod policy;
pub mod race;
pub mod recording;
pub mod report;
pub mod tune;
pub mod whatif;
pub mod workload;

/// When a run begins: zero means "never" to whoever reads a clock.
pub const BEGIN: pointsman_core::Nanos = pointsman_core::Nanos(1_000_000_000);

/// SplitMix64's output function: a bijection that scatters neighbouring numbers.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
