//! What a page lacked, and when that is worth a line in the log.
//!
//! A renamed or vanished family is unknown, never zero, and must be seen to be unknown: the state of the endpoint says so at every page, the
//! log when it changes.

use std::borrow::Cow;
use std::time::Duration;

use tokio::time::Instant;

use crate::scrape::Missing;

/// Least time between two lines about one page: where pages of several engines alternate behind one address, every page is a change.
const QUIET: Duration = Duration::from_secs(10);

/// How one page was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Something in it was usable.
    pub(super) usable: bool,
    /// What it should have had.
    pub(super) missing: Missing,
}

impl Reading {
    /// Nothing to complain about.
    pub(super) const COMPLETE: Self =
        Self { usable: true, missing: Missing { waiting: false, running: false, kv_usage: false } };

    /// What is wrong with it, in words.
    pub(super) fn problem(self) -> Option<Cow<'static, str>> {
        match self {
            Self { usable: false, .. } => Some("nothing usable in the metrics page".into()),
            Self { missing, .. } if missing.any() => Some(format!("the metrics page has {missing}").into()),
            _ => None,
        }
    }
}

/// What was last told of a page.
#[derive(Debug)]
pub(super) struct Complaint {
    told: Reading,
    at: Option<Instant>,
}

impl Default for Complaint {
    /// A page is complete until it is seen not to be.
    fn default() -> Self {
        Self { told: Reading::COMPLETE, at: None }
    }
}

impl Complaint {
    /// Whether this page differs from what was last told, and is to be told now.
    pub(super) fn news(&mut self, now: Instant, reading: Reading) -> bool {
        let due = self.at.is_none_or(|at| now.saturating_duration_since(at) >= QUIET);
        let news = reading != self.told && due;
        if news {
            *self = Self { told: reading, at: Some(now) };
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLIND: Reading = Reading { missing: Missing { kv_usage: true, ..NONE }, ..Reading::COMPLETE };
    const IDLE: Reading = Reading { missing: Missing { waiting: true, ..NONE }, ..Reading::COMPLETE };
    const NONE: Missing = Missing { waiting: false, running: false, kv_usage: false };

    #[test]
    fn br_27_a_missing_family_is_told_once_and_again_when_the_set_changes() {
        let (mut complaint, start) = (Complaint::default(), Instant::now());
        for (second, reading, told) in [
            (0, Reading::COMPLETE, false),
            (1, BLIND, true),
            (2, BLIND, false),
            (100, BLIND, false),
            (101, IDLE, true),
            (120, Reading { usable: false, ..IDLE }, true),
            (140, Reading::COMPLETE, true),
            (150, Reading::COMPLETE, false),
        ] {
            assert_eq!(complaint.news(start + Duration::from_secs(second), reading), told, "at {second} s");
        }
    }

    #[test]
    fn pages_that_alternate_do_not_fill_the_log_and_the_last_state_is_told_in_the_end() {
        let (mut complaint, start) = (Complaint::default(), Instant::now());
        let told = (0..1_000).filter(|n| {
            let reading = if n % 2 == 0 { BLIND } else { Reading::COMPLETE };
            complaint.news(start + Duration::from_millis(50) * *n, reading)
        });
        assert!((2..=5).contains(&told.count()), "in 50 s");
        complaint.news(start + Duration::from_secs(70), IDLE);
        assert!(!complaint.news(start + Duration::from_secs(71), BLIND));
        assert!(complaint.news(start + Duration::from_secs(80), BLIND));
    }

    #[test]
    fn a_problem_says_what_is_missing() {
        assert_eq!(Reading::COMPLETE.problem(), None);
        assert_eq!(BLIND.problem().as_deref(), Some("the metrics page has no KV cache usage"));
        let useless = Reading { usable: false, ..BLIND };
        assert_eq!(useless.problem().as_deref(), Some("nothing usable in the metrics page"));
    }
}
