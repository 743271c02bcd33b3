//! Time comes in through here, so that production, the simulator and tests run the same code.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A point on the process's monotone time line, in nanoseconds since an arbitrary start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Time from `earlier` to `self`; zero when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Nanos) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// `self` moved later by `by`.
    #[must_use]
    pub fn plus(self, by: Duration) -> Nanos {
        Nanos(self.0.saturating_add(by.as_nanos().min(u128::from(u64::MAX)) as u64))
    }
}

/// Where time comes from.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// Monotone time.
    fn now(&self) -> Nanos;
    /// Wall-clock time, milliseconds since the Unix epoch.
    fn unix_millis(&self) -> u64;
    /// Wall-clock time, nanoseconds since the Unix epoch, as finely as the clock can tell.
    fn unix_nanos(&self) -> u64 {
        self.unix_millis() * 1_000_000
    }
}

/// A wait that ends by itself.
pub type Wait = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Waits for moments of a [`Clock`]: with the runtime's timers in production, with its own events in the simulator.
pub trait Timer: Send + Sync + std::fmt::Debug + 'static {
    /// Ends at `at`, or at once where that has passed.
    fn until(&self, at: Nanos) -> Wait;
}

/// The machine's own clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        // One second ahead, so that zero can mean "never".
        Nanos(self.start.elapsed().as_nanos() as u64 + 1_000_000_000)
    }

    fn unix_millis(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
    }

    fn unix_nanos(&self) -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64)
    }
}

/// A clock that moves only when told to: tests and the simulator.
#[derive(Debug, Default)]
pub struct ManualClock {
    nanos: AtomicU64,
}

impl ManualClock {
    /// A clock standing at `at`.
    #[must_use]
    pub fn at(at: Nanos) -> Self {
        Self { nanos: AtomicU64::new(at.0) }
    }

    /// Puts the clock at `at`; it never goes back.
    pub fn reach(&self, at: Nanos) {
        self.nanos.fetch_max(at.0, Ordering::SeqCst);
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.nanos.fetch_add(by.as_nanos() as u64, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Nanos {
        Nanos(self.nanos.load(Ordering::SeqCst))
    }

    fn unix_millis(&self) -> u64 {
        self.nanos.load(Ordering::SeqCst) / 1_000_000
    }

    fn unix_nanos(&self) -> u64 {
        self.nanos.load(Ordering::SeqCst)
    }
}
