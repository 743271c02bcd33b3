//! Load on a picker: as much as it takes, at a fixed rate, or as event streams.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::task::JoinSet;

use super::exchange::{self, Fault};
use super::pace::Pace;
use super::samples::Measured;
use super::script::Script;
use super::stream::Connection;

/// A request without an end after this long counts as failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// Who carries the load, over which connections, with which requests. Runs on one thread.
pub(super) struct Load {
    /// Requests go round over them.
    pub(super) connections: Vec<Connection>,
    /// Requests, taken round.
    pub(super) scripts: Rc<Vec<Script>>,
    /// Numbers requests over all loads of a run.
    pub(super) next: Rc<Cell<u64>>,
}

impl Load {
    /// Keeps `concurrency` requests under way for `time`.
    pub(super) async fn closed(&self, concurrency: usize, time: Duration) -> Measured {
        let start = Instant::now();
        let measured = Rc::new(RefCell::new(Measured::default()));
        let local = tokio::task::LocalSet::new();
        for worker in 0..concurrency {
            let connection = self.connections[worker % self.connections.len()].clone();
            let (scripts, next, measured) = (Rc::clone(&self.scripts), Rc::clone(&self.next), Rc::clone(&measured));
            local.spawn_local(async move {
                while start.elapsed() < time {
                    let number = next.replace(next.get() + 1);
                    let ended = one(&connection, &scripts, number).await;
                    let failed = ended.is_err();
                    measured.borrow_mut().push(ended, Duration::ZERO);
                    if failed {
                        // A picker that is gone must not be asked a million times.
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
            });
        }
        local.await;
        let mut measured = measured.take();
        measured.wall = start.elapsed();
        measured
    }

    /// Starts `rate` requests per second for `time`, each at its moment, whatever became of the others.
    pub(super) async fn open(&self, rate: u32, time: Duration) -> Result<Measured> {
        let local = tokio::task::LocalSet::new();
        local.run_until(self.open_locally(rate, time)).await
    }

    async fn open_locally(&self, rate: u32, time: Duration) -> Result<Measured> {
        let pace = Pace::new()?;
        let start = Instant::now();
        let mut measured = Measured::default();
        let mut running = JoinSet::new();
        let total = (time.as_secs_f64() * f64::from(rate)).round() as u64;
        for step in 0..total {
            let moment = start + Duration::from_secs(step) / rate;
            pace.until(moment).await?;
            let late = moment.elapsed();
            let number = self.next.replace(self.next.get() + 1);
            let connection = self.connections[(number % self.connections.len() as u64) as usize].clone();
            let scripts = Rc::clone(&self.scripts);
            running.spawn_local(async move { (one(&connection, &scripts, number).await, late) });
            while let Some(ended) = running.try_join_next() {
                let (ended, late) = ended.context("a request of the load panicked")?;
                measured.push(ended, late);
            }
        }
        while let Some(ended) = running.join_next().await {
            let (ended, late) = ended.context("a request of the load panicked")?;
            measured.push(ended, late);
        }
        measured.wall = start.elapsed();
        Ok(measured)
    }
}

async fn one(connection: &Connection, scripts: &[Script], number: u64) -> Result<exchange::Timing, Fault> {
    let script = &scripts[(number % scripts.len() as u64) as usize];
    match tokio::time::timeout(DEADLINE, exchange::whole(connection, script, number)).await {
        Ok(ended) => ended,
        Err(_) => Err(Fault::Failed(format!("no end within {DEADLINE:?}"))),
    }
}
