//! The production router under a virtual clock.

use std::sync::Arc;

use pointsman_config::Faults;
use pointsman_core::{Clock, ManualClock};
use pointsman_plugins::{CompileOptions, DefaultProfile, LearnedStates, compile};
use pointsman_router::{Pool, PoolOptions, seed_draws};

use crate::BEGIN;

/// Why a configuration is no policy.
#[derive(Debug, thiserror::Error)]
#[error("the configuration has {count} {noun}: {first}", noun = if *count == 1 { "fault" } else { "faults" })]
pub struct Unusable {
    /// How many faults.
    pub count: usize,
    /// The first.
    pub first: String,
}

/// A router with that configuration, which keeps no records; an empty one means `default`. All draws of this thread's routers follow from `seed` from here on,
/// so one thread runs one of them at a time.
///
/// # Errors
/// When the document has faults.
pub(crate) fn router(
    document: &[u8],
    default: DefaultProfile,
    seed: u64,
) -> Result<(Arc<Pool>, Arc<ManualClock>), Unusable> {
    let states: Arc<LearnedStates> = Arc::default();
    let options = CompileOptions { allow_experimental: true, default, states: Arc::clone(&states) };
    let mut faults = Faults::new();
    let Some(compiled) = compile(document, &options, &mut faults) else {
        let all = faults.sorted();
        let first = all.first().map(|fault| fault.message.to_string()).unwrap_or_default();
        return Err(Unusable { count: all.len().max(1), first });
    };
    seed_draws(seed);
    let clock = Arc::new(ManualClock::at(BEGIN));
    let options =
        PoolOptions { clock: Arc::clone(&clock) as Arc<dyn Clock>, states, record_bytes: 0, ..PoolOptions::default() };
    Ok((Pool::new(options, compiled), clock))
}
