//! Why there is no profile.

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfilingError {
    /// The time asked for is not one.
    #[error("a CPU profile takes 1 to {} seconds", crate::LONGEST)]
    Seconds,
    /// There is one clock for profiles, and it runs for somebody else.
    #[error("another CPU profile is being taken; try again when it is done")]
    Busy,
    /// The allocator does not sample.
    #[error(
        "this process does not sample its heap (the allocator's option prof is off: set _RJEM_MALLOC_CONF=prof:true)"
    )]
    HeapUnsampled,
    /// The profiler failed.
    #[error("the profile could not be taken: {0}")]
    Failed(String),
}
