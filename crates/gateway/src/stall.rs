//! HTTP/2 clients that stop taking a response.
//!
//! Such a client keeps its connection, where others of its requests may be doing well, and only grants the one response no more room. While there is none,
//! hyper does not ask the response's body for more, so that the body cannot notice; and nothing is being written, so that the connection cannot either.
//! What can is the task that hyper spawns for each request: [`Spawn`] ends one that holds a piece of a response for too long, which resets its stream alone.
//! Over HTTP/1 such a client shows as writing that does not go on: see [`Activity`](crate::activity::Activity).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use hyper::rt::Executor;
use tokio::time::{Instant, Sleep, sleep};

/// What a response's body was last seen doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It was asked for more, and has nothing now or nothing left: not the client's fault.
    Asked,
    /// It gave a piece away.
    Gave,
}

thread_local! {
    /// Said by a body to the task that polls it, within one poll. Costs a request nothing but this cell.
    static TOLD: Cell<Option<Told>> = const { Cell::new(None) };
}

/// Tells the task that polls a body what the body does.
pub(crate) fn tell(told: Told) {
    TOLD.set(Some(told));
}

/// Spawns the tasks of an HTTP/2 connection, and ends those whose client takes nothing for `limit`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spawn {
    pub(crate) limit: Duration,
}

impl<F> Executor<F> for Spawn
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, stream: F) {
        tokio::spawn(until_stalled(stream, self.limit));
    }
}

async fn until_stalled(stream: impl Future<Output = ()>, limit: Duration) {
    let mut stream = pin!(stream);
    // Set while a piece waits for room.
    let mut waiting: Option<Pin<Box<Sleep>>> = None;
    poll_fn(|cx| {
        TOLD.set(None);
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        match (TOLD.take(), &mut waiting) {
            (Some(Told::Asked), _) => waiting = None,
            (Some(Told::Gave), None) => waiting = Some(Box::pin(sleep(limit))),
            // It was woken before its time: there is a little more room.
            (_, Some(sleep)) if !sleep.is_elapsed() => sleep.as_mut().reset(Instant::now() + limit),
            (Some(Told::Gave), Some(sleep)) => sleep.as_mut().reset(Instant::now() + limit),
            (None, _) => {}
        }
        match &mut waiting {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::timeout;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(150);

    /// A task that says this when it begins, and is then woken so many times, each well within the limit.
    async fn saying(told: Option<Told>, wakes: usize, woken: Arc<AtomicUsize>) {
        told.into_iter().for_each(tell);
        for _ in 0..wakes {
            sleep(LIMIT / 3).await;
            woken.fetch_add(1, Ordering::Relaxed);
        }
        std::future::pending().await
    }

    #[tokio::test]
    async fn only_a_task_whose_piece_is_not_taken_is_ended() {
        for (told, ends) in [(None, false), (Some(Told::Asked), false), (Some(Told::Gave), true)] {
            let task = until_stalled(saying(told, 1, Arc::default()), LIMIT);
            assert_eq!(timeout(LIMIT * 5, task).await.is_ok(), ends, "{told:?}");
        }
    }

    #[tokio::test]
    async fn slow_is_not_stalled() {
        let woken = Arc::default();
        let task = until_stalled(saying(Some(Told::Gave), 9, Arc::clone(&woken)), LIMIT);
        timeout(LIMIT * 50, task).await.expect("it ends when nothing wakes it any more");
        assert_eq!(woken.load(Ordering::Relaxed), 9);
    }
}
