//! Waits for moments that lie less than a millisecond apart, which the runtime's own timer cannot tell apart.

use std::io::ErrorKind;
use std::time::Instant;

use anyhow::{Context as _, Result};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// A high-resolution timer of the kernel.
///
/// The runtime sees it as the reading end of a pipe: it becomes readable and is read like one, and this way of watching a
/// descriptor is safe code.
pub(super) struct Pace {
    timer: Receiver,
}

impl Pace {
    /// A timer on the current runtime.
    pub(super) fn new() -> Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC);
        let timer = Receiver::from_owned_fd_unchecked(timer.context("no timer")?).context("cannot watch the timer")?;
        Ok(Self { timer })
    }

    /// Returns at `moment`; when that has passed, after whoever else is ready had a turn.
    pub(super) async fn until(&self, moment: Instant) -> Result<()> {
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            tokio::task::yield_now().await;
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec { tv_sec: i64::try_from(left.as_secs())?, tv_nsec: left.subsec_nanos().into() },
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).context("cannot set the timer")?;
        loop {
            self.timer.readable().await.context("the timer is gone")?;
            match self.timer.try_read(&mut [0; 8]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error).context("the timer cannot be read"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(flavor = "current_thread")]
    async fn a_moment_is_met_and_never_early() {
        let pace = Pace::new().unwrap();
        let start = Instant::now();
        for step in 1..=200_u32 {
            let moment = start + Duration::from_micros(100) * step;
            pace.until(moment).await.unwrap();
            assert!(Instant::now() >= moment);
        }
        pace.until(start).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(5));
    }
}
