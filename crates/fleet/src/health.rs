//! Whether an endpoint may be chosen, since when, and why not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::Mutex;
use pointsman_core::{Clock, Nanos};

/// One source of unreadiness. Each is set and cleared by its own owner; the endpoint is ready when all are clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Condition {
    /// Discovery calls it not ready.
    Discovery,
    /// The active health check fails.
    Probe,
    /// The gateway saw it fail requests and put it aside.
    Ejected,
    /// Someone took it out by hand.
    Drained,
}

impl Condition {
    /// All of them, in the order in which reasons are told.
    pub const ALL: [Condition; 4] = [Self::Drained, Self::Discovery, Self::Probe, Self::Ejected];

    /// The name in the API and in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::Probe => "probe",
            Self::Ejected => "ejected",
            Self::Drained => "drained",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Readiness, for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// Whether it may be chosen.
    pub ready: bool,
    /// When `ready` last changed (or the endpoint joined).
    pub since: Nanos,
    /// The same, milliseconds since the Unix epoch.
    pub since_unix_millis: u64,
    /// Why it is not ready, every set condition's reason joined by `; `. `None` when ready.
    pub reason: Option<Arc<str>>,
}

/// Readiness of one endpoint.
#[derive(Debug)]
pub struct Health {
    /// Bits of the set conditions, and [`LEFT`].
    set: AtomicU8,
    detail: Mutex<Detail>,
}

/// Not a condition: the endpoint is no longer in the fleet.
const LEFT: u8 = 1 << 7;

#[derive(Debug)]
struct Detail {
    since: Nanos,
    since_unix_millis: u64,
    reasons: [Option<Arc<str>>; Condition::ALL.len()],
}

impl Health {
    /// Ready since now.
    pub fn new(clock: &dyn Clock) -> Self {
        let detail = Detail { since: clock.now(), since_unix_millis: clock.unix_millis(), reasons: Default::default() };
        Self { set: AtomicU8::new(0), detail: Mutex::new(detail) }
    }

    /// Sets a condition for a reason, or clears it with `None`. Tells whether [`Health::ready`] changed.
    pub fn set(&self, condition: Condition, reason: Option<Arc<str>>, clock: &dyn Clock) -> bool {
        let mut detail = self.detail.lock();
        let before = self.set.load(Ordering::Relaxed);
        let after = if reason.is_some() { before | condition.bit() } else { before & !condition.bit() };
        detail.reasons[condition as usize] = reason;
        let changed = (before == 0) != (after == 0);
        if changed {
            detail.since = clock.now();
            detail.since_unix_millis = clock.unix_millis();
        }
        self.set.store(after, Ordering::Release);
        changed
    }

    /// Whether no condition is set: one atomic load. False for an endpoint that left.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.set.load(Ordering::Acquire) == 0
    }

    /// Whether a condition is set.
    #[must_use]
    pub fn has(&self, condition: Condition) -> bool {
        self.set.load(Ordering::Acquire) & condition.bit() != 0
    }

    /// Why a condition is set.
    #[must_use]
    pub fn reason(&self, condition: Condition) -> Option<Arc<str>> {
        self.detail.lock().reasons[condition as usize].clone()
    }

    /// Readiness with since when and why.
    #[must_use]
    pub fn describe(&self) -> HealthReport {
        let detail = self.detail.lock();
        let set = self.set.load(Ordering::Relaxed);
        let mut reasons = Condition::ALL.iter().filter_map(|c| detail.reasons[*c as usize].as_ref());
        let reason = match (reasons.next(), reasons.next()) {
            (None, _) if set & LEFT != 0 => Some(Arc::from("left the fleet")),
            (None, _) => None,
            (Some(only), None) => Some(Arc::clone(only)),
            (Some(first), Some(second)) => {
                let mut all = format!("{first}; {second}");
                for more in reasons {
                    all.push_str("; ");
                    all.push_str(more);
                }
                Some(all.into())
            }
        };
        HealthReport { ready: set == 0, since: detail.since, since_unix_millis: detail.since_unix_millis, reason }
    }

    pub(crate) fn leave(&self, clock: &dyn Clock) {
        let mut detail = self.detail.lock();
        if self.set.fetch_or(LEFT, Ordering::AcqRel) == 0 {
            detail.since = clock.now();
            detail.since_unix_millis = clock.unix_millis();
        }
    }

    pub(crate) fn left(&self) -> bool {
        self.set.load(Ordering::Acquire) & LEFT != 0
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use pointsman_core::ManualClock;

    use super::*;

    fn at(millis: u64) -> Nanos {
        Nanos(millis * 1_000_000)
    }

    #[test]
    fn an_endpoint_is_ready_only_when_every_condition_is_clear() {
        let clock = ManualClock::at(at(1_000));
        let health = Health::new(&clock);
        assert!(health.ready());
        for condition in Condition::ALL {
            assert!(health.set(condition, Some("down".into()), &clock), "{condition:?}");
            assert!(!health.ready() && health.has(condition));
            assert!(health.set(condition, None, &clock), "{condition:?}");
            assert!(health.ready() && !health.has(condition));
        }
        assert!(health.set(Condition::Probe, Some("connection refused".into()), &clock));
        assert!(!health.set(Condition::Drained, Some("drained".into()), &clock));
        assert!(!health.set(Condition::Probe, None, &clock), "still drained");
        assert!(!health.ready());
        assert!(health.set(Condition::Drained, None, &clock));
        assert!(health.ready());
    }

    #[test]
    fn since_moves_only_when_readiness_changes() {
        let clock = ManualClock::at(at(1_000));
        let health = Health::new(&clock);
        assert_eq!(health.describe().since, at(1_000));
        clock.advance(Duration::from_secs(1));
        health.set(Condition::Probe, Some("refused".into()), &clock);
        clock.advance(Duration::from_secs(1));
        health.set(Condition::Probe, Some("timed out".into()), &clock);
        health.set(Condition::Ejected, Some("5 errors in a row".into()), &clock);
        let report = health.describe();
        assert_eq!((report.ready, report.since, report.since_unix_millis), (false, at(2_000), 2_000));
        assert_eq!(report.reason.as_deref(), Some("timed out; 5 errors in a row"));
        clock.advance(Duration::from_secs(1));
        health.set(Condition::Probe, None, &clock);
        assert_eq!(health.describe().since, at(2_000));
        assert_eq!(health.describe().reason.as_deref(), Some("5 errors in a row"));
        health.set(Condition::Ejected, None, &clock);
        assert_eq!(
            health.describe(),
            HealthReport { ready: true, since: at(4_000), since_unix_millis: 4_000, reason: None }
        );
    }

    #[test]
    fn an_endpoint_that_left_is_never_ready_again() {
        let clock = ManualClock::at(at(1_000));
        let health = Health::new(&clock);
        health.leave(&clock);
        health.set(Condition::Probe, Some("refused".into()), &clock);
        health.set(Condition::Probe, None, &clock);
        assert!(!health.ready() && health.left());
        assert_eq!(health.describe().reason.as_deref(), Some("left the fleet"));
    }
}
