//! Why there is no profile.

/// Why there is no profile.
#[derive(Debug, thiserror::Error)]
pub enum ProfilingError {
    /// The time asked for is not one.
    #[error("a profile takes 1 to {} seconds", crate::LONGEST)]
    Seconds,
    /// There is one clock for profiles, and it runs for somebody else.
    #[error("another CPU profile is being taken; try again when it is done")]
    Busy,
    /// The allocator was built without sampling.
    #[error("this program was built without heap profiles")]
    HeapUnknown,
    /// The allocator does not sample.
    #[error(
        "the heap is not sampled: ask with ?seconds=N for what is allocated from now on, or start the process with _RJEM_MALLOC_CONF=prof_active:true"
    )]
    HeapUnsampled,
    /// The profiler failed.
    #[error("the profile could not be taken: {0}")]
    Failed(String),
}
