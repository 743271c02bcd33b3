//! When to fetch: every page on its own beat, the beats of many endpoints spread evenly over the period.
//!
//! Fetching all pages at the same moment makes a burst of work every period and leaves the rest of it idle; decisions then queue behind the
//! burst. Here endpoint `n` begins at the fraction `n * golden ratio (mod 1)` of the period: however many endpoints there are, and whichever
//! of them leave, the moments stay nearly equidistant (three-distance theorem), without a table that must be kept.

use std::time::Duration;

use tokio::time::Instant;

/// Shortest period of a scrape (request-lifecycle 8.1).
pub const SHORTEST_TICK: Duration = Duration::from_millis(50);

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Tick of the process: the base interval or the shortest interval a source asks for, and never below [`SHORTEST_TICK`].
pub(crate) fn tick(base: Duration, asked: impl IntoIterator<Item = Option<Duration>>) -> Duration {
    asked.into_iter().flatten().fold(base, Duration::min).max(SHORTEST_TICK)
}

/// Period of a source that asks for an interval: the nearest whole number of ticks, at least one.
pub(crate) fn period(tick: Duration, asked: Option<Duration>) -> Duration {
    let Some(asked) = asked else { return tick };
    let ticks = (asked.as_secs_f64() / tick.as_secs_f64()).round().clamp(1.0, 1e6);
    tick * ticks as u32
}

/// The moments at which one page is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beat {
    origin: Instant,
    period: Duration,
}

impl Beat {
    /// The beat of the `n`th of many equal ones that share an epoch.
    pub(crate) fn new(epoch: Instant, period: Duration, n: u32) -> Self {
        let fraction = u64::from(n).wrapping_mul(GOLDEN) as f64 / 2f64.powi(64);
        Self { origin: epoch + period.mul_f64(fraction), period }
    }

    /// The first moment after `now`.
    pub(crate) fn after(&self, now: Instant) -> Instant {
        match now.checked_duration_since(self.origin) {
            None => self.origin,
            Some(since) => {
                let nanos = self.period.as_nanos().max(1);
                let into = since.as_nanos() % nanos;
                now + Duration::from_nanos((nanos - into) as u64)
            }
        }
    }

    /// When to fetch next, after a fetch that was due at `due`, began at `begun` and ended `now`: at the next moment, or at once when one has
    /// just passed because the fetch began late.
    ///
    /// That is what a busy machine does to all of them; it must not cost every second page. An engine that takes a whole period for its page is
    /// not asked again at once: it would have nothing else to do.
    pub(crate) fn next(&self, due: Instant, begun: Instant, now: Instant) -> Instant {
        let after = self.after(now);
        let took = now.saturating_duration_since(begun);
        match after.checked_sub(self.period) {
            Some(passed) if passed > due && took < self.period && now.duration_since(passed) < self.period / 2 => {
                passed
            }
            _ => after,
        }
    }

    /// How many moments lie strictly between two moments of the beat.
    pub(crate) fn skipped(&self, from: Instant, to: Instant) -> u64 {
        let periods = to.saturating_duration_since(from).as_secs_f64() / self.period.as_secs_f64();
        (periods.round() as u64).saturating_sub(1)
    }

    /// Time between two moments.
    pub(crate) fn period(&self) -> Duration {
        self.period
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn an_interval_is_a_whole_number_of_ticks_and_the_tick_never_below_50_ms() {
        for (base, asked, want_tick, want_period) in [
            (50, 1_000, 50, 1_000),
            (50, 120, 50, 100),
            (50, 130, 50, 150),
            (50, 20, 50, 50),
            (1_000, 200, 200, 200),
            (20, 20, 50, 50),
            (200, 1_000, 200, 1_000),
        ] {
            let tick = tick(ms(base), [Some(ms(asked))]);
            assert_eq!((tick, period(tick, Some(ms(asked)))), (ms(want_tick), ms(want_period)), "{base} {asked}");
        }
        assert_eq!(period(ms(50), None), ms(50));
    }

    #[test]
    fn beats_of_many_endpoints_are_spread_evenly() {
        let epoch = Instant::now();
        for n in [3, 10, 100, 500, 777] {
            let mut at: Vec<u128> =
                (0..n).map(|i| (Beat::new(epoch, ms(50), i).after(epoch) - epoch).as_nanos() % 50_000_000).collect();
            at.sort_unstable();
            let gaps = at.iter().zip(at.iter().cycle().skip(1)).map(|(a, b)| (b + 50_000_000 - a) % 50_000_000);
            let widest = gaps.max().expect("endpoints");
            assert!(widest <= 3 * 50_000_000 / u128::from(n), "{n} endpoints leave a gap of {widest} ns");
        }
    }

    #[test]
    fn the_next_moment_is_after_now_on_the_same_grid_and_missed_ones_are_counted() {
        let epoch = Instant::now();
        let beat = Beat::new(epoch, ms(50), 7);
        let first = beat.after(epoch);
        assert!(first > epoch && first <= epoch + ms(50));
        let second = beat.after(first);
        assert_eq!(second - first, ms(50));
        assert_eq!(beat.after(first + ms(49)), second);
        assert_eq!(beat.skipped(first, second), 0);
        assert_eq!(beat.next(first, first, first + ms(49)), second);
        let late = beat.after(first + ms(170));
        assert_eq!(late - first, ms(200));
        assert_eq!(beat.skipped(first, late), 3);
    }

    #[test]
    fn a_moment_that_passed_because_the_fetch_began_late_is_made_up_for() {
        let first = Instant::now();
        let beat = Beat::new(first, ms(50), 0);
        for (begun, ended, next, skipped) in [
            (0, 0, 50, 0),
            (20, 30, 50, 0),
            (40, 51, 50, 0),
            (60, 74, 50, 0),
            (60, 76, 100, 1),
            (80, 120, 100, 1),
            (1_000, 1_010, 1_000, 19),
            // Slow itself.
            (0, 50, 100, 1),
            (1, 60, 100, 1),
            (0, 130, 150, 2),
        ] {
            let at = beat.next(first, first + ms(begun), first + ms(ended));
            assert_eq!((at - first, beat.skipped(first, at)), (ms(next), skipped), "{begun} to {ended} ms");
        }
    }
}
