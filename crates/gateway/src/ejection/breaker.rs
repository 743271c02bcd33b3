//! The state of one endpoint's ejection: a machine without a clock.

use std::time::Duration;

use pointsman_core::Nanos;

use crate::EjectionOptions;

/// How a request failed at an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It could not be connected to.
    Connect,
    /// It answered 502, 503 or 504, broke off before its answer, or did not answer in time.
    Answer,
}

/// What a step of the machine asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// Put aside from now on; wait for the end of it with [`Breaker::until`].
    Eject,
    /// Hold other requests back while one is on trial.
    Hold,
    /// May be chosen again.
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    In,
    Out { until: Nanos, kind: FailureKind },
    HalfOpen { trial: bool },
}

/// In, out, or half-open.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    state: State,
    /// Failures since the last success.
    failures: u32,
    /// Ejections since the last success.
    ejections: u32,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { state: State::In, failures: 0, ejections: 0 }
    }
}

impl Breaker {
    /// Whether there is nothing to remember: the state of a healthy endpoint.
    pub(crate) fn quiet(&self) -> bool {
        self.state == State::In && self.failures == 0 && self.ejections == 0
    }

    /// Until when it is out, and what for.
    pub(crate) fn until(&self) -> Option<(Nanos, FailureKind)> {
        match self.state {
            State::Out { until, kind } => Some((until, kind)),
            _ => None,
        }
    }

    /// Failures since the last success.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// A request goes there. `others` says whether any other endpoint could take requests meanwhile; alone, it is on trial with all of them.
    pub(crate) fn attempt(&mut self, others: impl FnOnce() -> bool) -> Effect {
        match self.state {
            State::HalfOpen { trial: false } if others() => {
                self.state = State::HalfOpen { trial: true };
                Effect::Hold
            }
            _ => Effect::None,
        }
    }

    /// A request was answered. While it is out, that is an answer to a question of before.
    pub(crate) fn success(&mut self) -> Effect {
        match self.state {
            State::Out { .. } => Effect::None,
            State::In => {
                (self.failures, self.ejections) = (0, 0);
                Effect::None
            }
            State::HalfOpen { trial } => {
                *self = Self::default();
                if trial { Effect::Release } else { Effect::None }
            }
        }
    }

    /// A request failed. `room` says whether one more endpoint may be out.
    pub(crate) fn failure(
        &mut self,
        kind: FailureKind,
        now: Nanos,
        options: &EjectionOptions,
        room: impl FnOnce() -> bool,
    ) -> Effect {
        self.failures = self.failures.saturating_add(1);
        let trial = match self.state {
            State::Out { .. } => return Effect::None,
            State::In if kind == FailureKind::Answer && self.failures < options.failures => return Effect::None,
            State::In => false,
            State::HalfOpen { trial } => trial,
        };
        if !room() {
            self.state = State::In;
            return if trial { Effect::Release } else { Effect::None };
        }
        self.state = State::Out { until: now.plus(length(self.ejections, options)), kind };
        self.ejections = self.ejections.saturating_add(1);
        Effect::Eject
    }

    /// The request ended without telling anything about the endpoint: its client left first.
    pub(crate) fn abandoned(&mut self) -> Effect {
        match self.state {
            State::HalfOpen { trial: true } => {
                self.state = State::HalfOpen { trial: false };
                Effect::Release
            }
            _ => Effect::None,
        }
    }

    /// Its time is over, or it accepts connections again.
    pub(crate) fn return_half_open(&mut self) -> Effect {
        match self.state {
            State::Out { .. } => {
                self.state = State::HalfOpen { trial: false };
                Effect::Release
            }
            _ => Effect::None,
        }
    }
}

/// Length of the ejection after `before` others.
fn length(before: u32, options: &EjectionOptions) -> Duration {
    options.base.checked_mul(1_u32.checked_shl(before).unwrap_or(u32::MAX)).unwrap_or(options.max).min(options.max)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: EjectionOptions = EjectionOptions {
        failures: 5,
        base: Duration::from_secs(10),
        max: Duration::from_secs(300),
        probe_interval: Duration::from_millis(500),
    };

    fn fail(breaker: &mut Breaker, kind: FailureKind, now: Nanos) -> Effect {
        breaker.failure(kind, now, &OPTIONS, || true)
    }

    #[test]
    fn a_connect_error_ejects_at_once() {
        let mut breaker = Breaker::default();
        assert_eq!(fail(&mut breaker, FailureKind::Connect, Nanos(7)), Effect::Eject);
        assert_eq!(breaker.until(), Some((Nanos(7 + 10_000_000_000), FailureKind::Connect)));
    }

    #[test]
    fn five_bad_answers_in_a_row_eject_and_a_good_one_between_does_not_count_them_together() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            assert_eq!(fail(&mut breaker, FailureKind::Answer, Nanos(0)), Effect::None);
        }
        assert_eq!(breaker.success(), Effect::None);
        assert!(breaker.quiet());
        for _ in 0..4 {
            assert_eq!(fail(&mut breaker, FailureKind::Answer, Nanos(0)), Effect::None);
        }
        assert_eq!(fail(&mut breaker, FailureKind::Answer, Nanos(0)), Effect::Eject);
    }

    #[test]
    fn ejections_double_up_to_the_longest_and_start_over_after_a_success() {
        let mut breaker = Breaker::default();
        let mut seconds = Vec::new();
        for _ in 0..40 {
            assert_eq!(fail(&mut breaker, FailureKind::Connect, Nanos(0)), Effect::Eject);
            seconds.push(breaker.until().unwrap().0.0 / 1_000_000_000);
            assert_eq!(breaker.return_half_open(), Effect::Release);
        }
        assert_eq!(seconds[..7], [10, 20, 40, 80, 160, 300, 300]);
        assert!(seconds[7..].iter().all(|s| *s == 300));
        assert_eq!(breaker.success(), Effect::None);
        fail(&mut breaker, FailureKind::Connect, Nanos(0));
        assert_eq!(breaker.until().unwrap().0, Nanos(10_000_000_000));
    }

    #[test]
    fn half_open_lets_one_request_through_whose_outcome_decides() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, FailureKind::Connect, Nanos(0));
        assert_eq!(breaker.attempt(|| true), Effect::None, "out: this one was on its way already");
        breaker.return_half_open();
        assert_eq!(breaker.attempt(|| true), Effect::Hold);
        assert_eq!(breaker.attempt(|| true), Effect::None);
        let mut failing = breaker.clone();
        assert_eq!(failing.failure(FailureKind::Answer, Nanos(0), &OPTIONS, || true), Effect::Eject, "one is enough");
        assert_eq!(breaker.success(), Effect::Release);
        assert!(breaker.quiet());
    }

    #[test]
    fn a_trial_whose_client_leaves_makes_room_for_another() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, FailureKind::Connect, Nanos(0));
        breaker.return_half_open();
        breaker.attempt(|| true);
        assert_eq!(breaker.abandoned(), Effect::Release);
        assert_eq!(breaker.attempt(|| true), Effect::Hold);
    }

    #[test]
    fn nobody_is_held_back_for_a_trial_when_there_is_nobody_else() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, FailureKind::Connect, Nanos(0));
        breaker.return_half_open();
        assert_eq!(breaker.attempt(|| false), Effect::None);
        assert_eq!(breaker.success(), Effect::None);
        assert!(breaker.quiet());
    }

    #[test]
    fn without_room_it_stays_in_and_asks_again_at_the_next_failure() {
        let mut breaker = Breaker::default();
        assert_eq!(breaker.failure(FailureKind::Connect, Nanos(0), &OPTIONS, || false), Effect::None);
        assert_eq!(breaker.failure(FailureKind::Connect, Nanos(0), &OPTIONS, || true), Effect::Eject);
    }

    #[test]
    fn a_late_success_does_not_end_an_ejection() {
        let mut breaker = Breaker::default();
        fail(&mut breaker, FailureKind::Connect, Nanos(0));
        assert_eq!(breaker.success(), Effect::None);
        assert!(breaker.until().is_some());
    }
}
