//! Event streams through a picker: many at once, one event at a time, each at its moment.

use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use h2::SendStream;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, LocalSet};

use super::exchange::{Exchange, Fault, compare};
use super::load::Load;
use super::pace::Pace;
use super::samples::Measured;
use super::script::Script;
use super::stream::{Answers, Connection};
use crate::extproc::Answer;

/// An event that is not back after this long ends its stream as failed.
const DEADLINE: Duration = Duration::from_secs(30);

/// Sends the events of `streams` streams, together `rate` per second, the streams taking turns.
///
/// The delay of an event is counted from the moment it was due, so that a slow generator or picker cannot hide.
pub(super) async fn run(load: &Load, streams: usize, rate: u32) -> Result<Measured> {
    LocalSet::new().run_until(locally(load, streams, rate)).await
}

async fn locally(load: &Load, streams: usize, rate: u32) -> Result<Measured> {
    let mut measured = Measured::default();
    let mut senders = Vec::new();
    let mut readers = JoinSet::new();
    let mut starts = Vec::new();
    for number in 0..streams {
        let connection = &load.connections[number % load.connections.len()];
        let script = number % load.scripts.len();
        match begin(connection, &load.scripts[script], load.next.replace(load.next.get() + 1)).await {
            Ok((sender, answers)) => {
                let (start, started) = oneshot::channel();
                let schedule = Schedule { offset: senders.len() as u32, streams: streams as u32, rate };
                readers.spawn_local(read(answers, Rc::clone(&load.scripts), script, schedule, started));
                senders.push((sender, script));
                starts.push(start);
            }
            Err(fault) => measured.faults.push(fault),
        }
    }

    let pace = Pace::new()?;
    let start = Instant::now();
    for waiting in starts {
        let _ = waiting.send(start);
    }
    let longest = load.scripts.iter().map(|script| script.reply.messages.len()).max().unwrap_or(0);
    for turn in 0..longest {
        for (at, (sender, script)) in senders.iter_mut().enumerate() {
            let Some(message) = load.scripts[*script].reply.messages.get(turn) else { continue };
            let schedule = Schedule { offset: at as u32, streams: streams as u32, rate };
            pace.until(start + schedule.due(turn)).await?;
            // A stream that broke is reported by its reader.
            let _ = sender.send_data(message.clone(), false);
        }
    }
    for (mut sender, _) in senders {
        let _ = sender.send_data(Bytes::new(), true);
    }
    while let Some(read) = readers.join_next().await {
        let (delays, fault) = read.context("a reader panicked")?;
        measured.done += delays.len() as u64;
        delays.into_iter().for_each(|delay| measured.totals.push(delay));
        if let Some(fault) = fault {
            measured.faults.push(fault);
        }
    }
    measured.wall = start.elapsed();
    Ok(measured)
}

/// When the events of one stream are due.
#[derive(Clone, Copy)]
struct Schedule {
    offset: u32,
    streams: u32,
    rate: u32,
}

impl Schedule {
    fn due(self, event: usize) -> Duration {
        let before = event as u64 * u64::from(self.streams) + u64::from(self.offset);
        Duration::from_nanos(before * 1_000_000_000 / u64::from(self.rate))
    }
}

/// Takes a request as far as its first event.
async fn begin(connection: &Connection, script: &Script, number: u64) -> Result<(SendStream<Bytes>, Answers), Fault> {
    let mut exchange = Exchange::open(connection, script, number).await?;
    exchange.send_body(script.messages.len()).await?;
    exchange.decision().await?;
    exchange.body_back().await?;
    exchange.response_headers().await?;
    Ok(exchange.into_stream().split())
}

/// Reads events until the last, and how long each took.
async fn read(
    mut answers: Answers,
    scripts: Rc<Vec<Script>>,
    script: usize,
    schedule: Schedule,
    started: oneshot::Receiver<Instant>,
) -> (Vec<Duration>, Option<Fault>) {
    let reply = &scripts[script].reply;
    let mut delays = Vec::with_capacity(reply.ends.len());
    let Ok(start) = started.await else { return (delays, Some(Fault::Failed("never started".into()))) };
    let mut have = 0;
    loop {
        let answer = match tokio::time::timeout(DEADLINE, answers.next()).await {
            Ok(Ok(Some(answer))) => answer,
            Ok(Ok(None)) => return (delays, Some(Fault::Failed("the stream ended early".into()))),
            Ok(Err(error)) => return (delays, Some(error.into())),
            Err(_) => return (delays, Some(Fault::Failed(format!("no event within {DEADLINE:?}")))),
        };
        let Some(Answer::ResponseBody(body)) = answer.response else {
            return (delays, Some(Fault::Wrong(format!("among the events: {answer:?}"))));
        };
        let ended = match compare(body.response, &reply.body, &mut have) {
            Ok(ended) => ended,
            Err(fault) => return (delays, Some(fault)),
        };
        // An answer may hold several events, or part of one.
        while reply.ends.get(delays.len()).is_some_and(|&end| end <= have) {
            delays.push((start + schedule.due(delays.len())).elapsed());
        }
        if ended {
            return (delays, None);
        }
    }
}
