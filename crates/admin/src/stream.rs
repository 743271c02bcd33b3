//! `GET /api/stream`: what happens, while somebody looks.
//!
//! Each viewer has a task that looks at the ring of decisions four times a second and at the fleet twice: nothing is done while a request is decided,
//! and nothing at all without a viewer. A viewer gets the newest decisions of each quarter second, no more than it asked for, and is told how
//! many there were beside. One that does not read its connection is passed over until it does.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use pointsman_scheduling::record::{Decision, DecisionId, Outcome};
use serde::ser::{Serialize, SerializeStruct, Serializer};
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::View;
use crate::endpoints::Shown;
use crate::reply::{Content, Reply, fault};

/// Viewers at once.
const MAX_VIEWERS: usize = 16;
/// Events that wait for a viewer to read.
const QUEUE: usize = 8;
/// Time between two looks at the ring.
const BEAT: Duration = Duration::from_millis(250);
const BEATS_PER_SECOND: usize = 4;
/// A fleet of more endpoints than this is told a quarter as often.
const LARGE_FLEET: usize = 128;
/// Decisions a second, unless the request says how many, and at most.
const DEFAULT_RATE: usize = 20;
const MAX_RATE: usize = 100;
/// Decisions whose end a viewer still waits for.
const MAX_OPEN: usize = 256;

/// Seats for viewers, and the word that all is over.
pub(crate) struct Streams {
    seats: Arc<Semaphore>,
    stopping: watch::Receiver<bool>,
}

/// How many decisions a second a viewer takes; `Err` says what is wrong with the query.
fn rate(query: &str) -> Result<usize, String> {
    let mut rate = DEFAULT_RATE;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("rate", n) => match n.parse::<usize>() {
                Ok(n) if (1..=MAX_RATE).contains(&n) => rate = n,
                _ => return Err(format!("rate is a number from 1 to {MAX_RATE}")),
            },
            _ => return Err("the only parameter is rate".to_owned()),
        }
    }
    Ok(rate)
}

impl Streams {
    pub(crate) fn new(stopping: watch::Receiver<bool>) -> Self {
        Self { seats: Arc::new(Semaphore::new(MAX_VIEWERS)), stopping }
    }

    /// Begins a stream.
    pub(crate) fn open<V: View>(&self, view: &Arc<V>, query: &str) -> Reply {
        let rate = match rate(query) {
            Ok(rate) => rate,
            Err(why) => return fault(StatusCode::BAD_REQUEST, &why),
        };
        let Ok(seat) = Arc::clone(&self.seats).try_acquire_owned() else {
            let why = format!("{MAX_VIEWERS} streams are open already; close one of them");
            return fault(StatusCode::SERVICE_UNAVAILABLE, &why);
        };
        let (sender, pieces) = channel(QUEUE);
        tokio::spawn(watch_over(Arc::clone(view), rate, sender, self.stopping.clone(), seat));
        let mut reply = Reply::new(Content::Pieces(pieces));
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        reply
    }
}

/// Tells one viewer until it leaves or the process stops.
async fn watch_over<V: View>(
    view: Arc<V>,
    rate: usize,
    sender: Sender<Bytes>,
    mut stopping: watch::Receiver<bool>,
    _seat: OwnedSemaphorePermit,
) {
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut viewer = Viewer::new(&*view, rate);
    for number in 0u64.. {
        tokio::select! {
            _ = beat.tick() => {}
            () = sender.closed() => return,
            _ = stopping.wait_for(|stop| *stop) => return,
        }
        // What a slow reader has not taken yet comes first; what is new then waits in the ring.
        if let Ok(place) = sender.try_reserve() {
            let events = viewer.events(&*view, number);
            if !events.is_empty() {
                place.send(events.into());
            }
        }
    }
}

/// What one viewer has been told.
struct Viewer {
    /// Decisions in each look.
    most: usize,
    /// Decisions there had been at the last look.
    decided: u64,
    newest: Option<DecisionId>,
    /// Decisions that it was told of and whose request went on.
    open: Vec<Arc<Decision>>,
}

impl Viewer {
    fn new(view: &impl View, rate: usize) -> Self {
        let newest = view.decisions(1, None).first().map(|d| d.id);
        Self { most: rate.div_ceil(BEATS_PER_SECOND), decided: view.decided(), newest, open: Vec::new() }
    }

    /// All that is new, as text of the stream.
    fn events(&mut self, view: &impl View, number: u64) -> String {
        let mut out = String::new();
        let fleet = view.fleet();
        let every = if fleet.endpoints.len() > LARGE_FLEET { 8 } else { 2 };
        if number.is_multiple_of(every) {
            let endpoints: Vec<Shown> = fleet.endpoints.iter().map(|e| Shown::of(e, view)).collect();
            event(
                &mut out,
                "fleet",
                &Fleet {
                    at_unix_ms: view.clock().unix_millis(),
                    decided: view.decided(),
                    config_version: view.config_version(),
                    endpoints,
                },
            );
        }
        let decided = view.decided();
        if decided != self.decided {
            let new = view.decisions(self.most, self.newest);
            // A decision that came in between the two looks is counted with the next ones.
            let omitted = decided.saturating_sub(self.decided).saturating_sub(new.len() as u64);
            self.decided = decided;
            if let Some(newest) = new.first() {
                self.newest = Some(newest.id);
            }
            event(&mut out, "decisions", &Decisions { omitted, decisions: new.iter().rev().map(|d| &**d).collect() });
            let going = new.into_iter().filter(|d| d.outcome.lock().ended.is_none());
            self.open.extend(going);
            let excess = self.open.len().saturating_sub(MAX_OPEN);
            self.open.drain(..excess);
        }
        let (ended, open): (Vec<_>, Vec<_>) = self.open.drain(..).partition(|d| d.outcome.lock().ended.is_some());
        self.open = open;
        if !ended.is_empty() {
            event(&mut out, "outcomes", &Outcomes { outcomes: ended.iter().map(|d| Ended(d)).collect() });
        }
        out
    }
}

fn event(out: &mut String, name: &str, data: &impl serde::Serialize) {
    // JSON has no line breaks of its own, so one `data` line holds it.
    if let Ok(data) = serde_json::to_string(data) {
        let _ = write!(out, "event: {name}\ndata: {data}\n\n");
    }
}

#[derive(serde::Serialize)]
struct Fleet {
    at_unix_ms: u64,
    decided: u64,
    config_version: u64,
    endpoints: Vec<Shown>,
}

#[derive(serde::Serialize)]
struct Decisions<'a> {
    omitted: u64,
    decisions: Vec<&'a Decision>,
}

#[derive(serde::Serialize)]
struct Outcomes<'a> {
    outcomes: Vec<Ended<'a>>,
}

struct Ended<'a>(&'a Decision);

impl Serialize for Ended<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let outcome: &Outcome = &self.0.outcome.lock();
        let mut o = s.serialize_struct("Ended", 2)?;
        o.serialize_field("id", &self.0.id.to_string())?;
        o.serialize_field("outcome", outcome)?;
        o.end()
    }
}
