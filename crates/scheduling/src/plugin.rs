//! The extension points (plugin specification 3.2).

use crate::record::Reason;
use crate::{Facts, ProfileRun, Request, Scope};
use pointsman_core::{Nanos, Refusal};
use pointsman_fleet::Endpoint;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a plugin sees of the request being scheduled.
#[derive(Clone, Copy, Debug)]
pub struct Cycle<'a> {
    /// The request.
    pub request: &'a Request,
    /// What producers said about it.
    pub facts: &'a Facts,
    /// The time of this cycle.
    pub now: Nanos,
}

/// Drops candidates.
pub trait Filter: Send + Sync {
    /// Calls `drop(i, why)` for each position `i` of `scope.kept` that must go.
    fn filter(&self, cycle: &Cycle<'_>, scope: Scope<'_>, drop: &mut dyn FnMut(usize, Reason));
}

/// Rates candidates from 0 to 1.
pub trait Scorer: Send + Sync {
    /// Writes the score of `scope.kept[i]` to `out[i]`. `out` comes zeroed; a candidate left at 0 gains nothing.
    fn score(&self, cycle: &Cycle<'_>, scope: Scope<'_>, out: &mut [f64]);
}

/// Chooses among rated candidates.
pub trait Picker: Send + Sync {
    /// Appends positions of `totals` to `out`, best first, at most as many as the plugin is set to return.
    fn pick(&self, totals: &[f64], rng: &mut fastrand::Rng, out: &mut Vec<usize>);
}

/// Decides which profiles run, and which result counts.
pub trait ProfileHandler: Send + Sync {
    /// Appends the numbers of the profiles to run next, in order; none ends the loop. `runs[p]` is the result of profile `p` so far.
    fn next(&self, request: &Request, runs: &[Option<Result<ProfileRun, Refusal>>], next: &mut Vec<usize>);

    /// The number of the profile whose endpoints are the answer.
    ///
    /// # Errors
    /// The refusal for the client when no profile gives an answer.
    fn primary(&self, runs: &[Option<Result<ProfileRun, Refusal>>]) -> Result<usize, Refusal>;
}

/// Attaches facts to a request before it is scheduled.
pub trait Producer: Send + Sync {
    /// Writes its columns. `all` are the candidates before any filter. A producer with nothing to say leaves its columns empty.
    fn produce(&self, request: &Request, all: Scope<'_>, now: Nanos, facts: &mut Facts);
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination {
    /// The response was delivered, whatever its status.
    Natural,
    /// The client left.
    ClientDisconnect,
    /// The engine failed, or the response broke off.
    Error,
    /// The process is stopping.
    Shutdown,
}

impl Termination {
    /// The literal used in metrics and records.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Natural => "natural",
            Self::ClientDisconnect => "client-disconnect",
            Self::Error => "error",
            Self::Shutdown => "shutdown",
        }
    }
}

/// The choice for one request, as its hooks see it.
#[derive(Debug)]
pub struct Chosen<'a> {
    /// The request.
    pub request: &'a Request,
    /// What was known about it.
    pub facts: &'a Facts,
    /// The endpoint it goes to.
    pub endpoint: &'a Arc<Endpoint>,
    /// Position of that endpoint among the candidates, which is also its place in every column of `facts`.
    pub candidate: usize,
    /// Columns of `facts` by candidate; how many there are.
    pub candidates: usize,
}

/// Told what becomes of a request. The value a hook returns from [`Hooks::chosen`] undoes, by being dropped, whatever the plugin holds
/// on behalf of the request.
pub trait Hooks: Send + Sync {
    /// The request is about to be sent to `chosen.endpoint` (upstream: PreRequest).
    fn chosen(&self, chosen: &Chosen<'_>) -> Option<Box<dyn Held>>;
}

/// What a plugin holds for one request between choice and end.
pub trait Held: Send + Sync {
    /// The request is on its way. Place for work that the decision need not wait for; always called before [`Held::first_byte`] and
    /// [`Held::ended`], perhaps not before [`Held::withdrawn`].
    fn sent(&mut self) {}
    /// The first byte of the response came.
    fn first_byte(&mut self) {}
    /// The endpoint could not serve it; the request goes elsewhere. Called instead of [`Held::ended`].
    fn withdrawn(self: Box<Self>) {}
    /// The request is over.
    fn ended(self: Box<Self>, _how: Termination) {}
}

/// Which endpoint served a request, as the proxy says (request-lifecycle 1.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served<'a> {
    /// The proxy reports nothing of the kind.
    NoNamespace,
    /// It reports other things.
    NoKey,
    /// `host:port`.
    Endpoint(&'a str),
}

/// Sees the head of every response (upstream: ResponseReceived).
pub trait ResponseHook: Send + Sync {
    /// Calls `set(name, value)` for each header that the response gets.
    fn response_head(&self, request: &Request, served: Served<'_>, set: &mut dyn FnMut(&str, &str));
}

/// Where durations of plugin calls go.
pub trait Timing: Send + Sync {
    /// One call took `seconds`.
    fn observe(&self, seconds: f64);
}

/// Keeps no durations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Untimed;

impl Timing for Untimed {
    fn observe(&self, _seconds: f64) {}
}

/// A plugin instance with its name.
pub struct Named<T: ?Sized> {
    /// Configuration type.
    pub type_name: Arc<str>,
    /// Instance name.
    pub name: Arc<str>,
    /// Durations of its calls at this extension point.
    pub timing: Arc<dyn Timing>,
    /// Scores that were not a number, and were taken as 0.
    pub nan: Arc<AtomicU64>,
    /// The plugin.
    pub plugin: Arc<T>,
}

impl<T: ?Sized> Named<T> {
    /// An instance whose calls are not timed.
    pub fn new(type_name: impl Into<Arc<str>>, name: impl Into<Arc<str>>, plugin: Arc<T>) -> Self {
        Self { type_name: type_name.into(), name: name.into(), timing: Arc::new(Untimed), nan: Arc::default(), plugin }
    }

    /// Counts a score that was not a number.
    pub(crate) fn count_nan(&self) {
        self.nan.fetch_add(1, Ordering::Relaxed);
    }
}

impl<T: ?Sized> Clone for Named<T> {
    fn clone(&self) -> Self {
        Self {
            type_name: Arc::clone(&self.type_name),
            name: Arc::clone(&self.name),
            timing: Arc::clone(&self.timing),
            nan: Arc::clone(&self.nan),
            plugin: Arc::clone(&self.plugin),
        }
    }
}

impl<T: ?Sized> std::fmt::Debug for Named<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.name, self.type_name)
    }
}

impl<T: ?Sized> Deref for Named<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.plugin
    }
}
