//! The extension points (plugin specification 3.2).

use crate::record::Reason;
use crate::{Answer, Facts, Request, Role, Scope, Stages};
use pointsman_core::{Clock, ErrorCode, Nanos, Refusal};
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
    /// The candidate that an earlier profile chose, to which this one is to find a partner.
    pub peer: Option<u32>,
    /// Where draws of this request begin.
    pub seed: u64,
    /// Nothing comes of this cycle: plugins read what they have learned, and change nothing of it.
    pub shadow: bool,
}

impl Cycle<'_> {
    /// Draws for one plugin instance: the same again for the same request and `salt`.
    #[must_use]
    pub fn draws(&self, salt: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed ^ salt)
    }
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
    /// Appends the numbers of the profiles to run next to `stages.next`, in order; none ends the loop.
    fn next(&self, stages: &mut Stages<'_>);

    /// What the profiles that ran come to.
    ///
    /// # Errors
    /// The refusal for the client when no profile gives an answer.
    fn answer(&self, stages: &Stages<'_>) -> Result<Answer, Refusal>;

    /// Why no profile ran at all.
    fn nothing_ran(&self, request: &Request) -> Refusal {
        let id = &request.id;
        let message = format!("failed to find target endpoint: failed to run any scheduler profile for request {id}");
        Refusal::new(ErrorCode::ResourceExhausted, message)
    }

    /// Whether `candidate` holds enough of the prompt for a client that would rather have no answer than wait for it to be computed. `None`: the handler
    /// has no opinion of its own.
    fn holds_enough(&self, _request: &Request, _facts: &Facts, _candidate: u32) -> Option<bool> {
        None
    }
}

/// Whether a stage beside decoding is worth its transfer.
pub trait Decider: Send + Sync {
    /// `candidate` is the one that an earlier stage chose, where one did.
    fn decide(&self, request: &Request, facts: &Facts, candidate: Option<u32>) -> bool;

    /// The answer to [`ProfileHandler::holds_enough`] of a decider that weighs what `candidate` holds.
    fn holds_enough(&self, _request: &Request, _facts: &Facts, _candidate: u32) -> Option<bool> {
        None
    }
}

/// Lets a request in, or not, once it is known what its candidates are like.
pub trait Admitter: Send + Sync {
    /// # Errors
    /// The refusal for the client.
    fn admit(&self, cycle: &Cycle<'_>, all: Scope<'_>) -> Result<(), Refusal>;
}

/// Sees a request when its head and body are understood, before anything is decided (upstream: RequestHeader).
pub trait RequestHook: Send + Sync {
    /// May publish texts, and say whose request it is.
    fn request(&self, request: &mut Request, facts: &mut Facts);
}

/// Attaches facts to a request before it is scheduled.
pub trait Producer: Send + Sync {
    /// Writes its columns. `all` are the candidates before any filter. A producer with nothing to say leaves its columns empty.
    fn produce(&self, request: &Request, all: Scope<'_>, now: Nanos, facts: &mut Facts);
}

/// Holds requests back for a moment between their last byte and their decision, to place several together.
pub trait Batcher: Send + Sync {
    /// Joins those that wait. `None`: this request need not.
    fn join(&self, request: &Request, all: Scope<'_>, now: Nanos) -> Option<Joined>;
}

/// A request that waits with others. Dropped before its time, it has left.
pub struct Joined {
    /// When the wait is over.
    pub until: Nanos,
    /// What there is to say of its candidates then.
    pub then: Box<dyn Producer>,
}

impl std::fmt::Debug for Joined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Joined").field("until", &self.until).finish_non_exhaustive()
    }
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
    /// The profile that chose where it goes.
    pub profile: &'a str,
    /// The endpoint it goes to.
    pub endpoint: &'a Arc<Endpoint>,
    /// Position of that endpoint among the candidates, which is also its place in every column of `facts`.
    pub candidate: usize,
    /// Columns of `facts` by candidate; how many there are.
    pub candidates: usize,
    /// What the other profiles chose.
    pub others: &'a [StagePick],
}

/// What a profile beside the primary one chose.
#[derive(Clone, Debug)]
pub struct StagePick {
    /// Name of the profile.
    pub profile: Arc<str>,
    /// What its engines do for the request.
    pub role: Role,
    /// The endpoints, best first; never empty.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Their positions among the candidates.
    pub candidates: Vec<u32>,
}

impl StagePick {
    /// The pick of that role.
    #[must_use]
    pub fn of(others: &[StagePick], role: Role) -> Option<&StagePick> {
        others.iter().find(|s| s.role == role)
    }
}

/// Headers that plugins put on a request on its way to the engine, over whatever the client sent under that name.
pub type AddedHeaders = Vec<(&'static str, String)>;

/// Told what becomes of a request. The value a hook returns from [`Hooks::chosen`] undoes, by being dropped, whatever the plugin holds
/// on behalf of the request.
pub trait Hooks: Send + Sync {
    /// The request is about to be sent to `chosen.endpoint` (upstream: PreRequest).
    fn chosen(&self, chosen: &Chosen<'_>, headers: &mut AddedHeaders) -> Option<Box<dyn Held>>;
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

/// Two things held for one request.
impl<A: Held + ?Sized, B: Held + ?Sized> Held for (Box<A>, Box<B>) {
    fn sent(&mut self) {
        self.0.sent();
        self.1.sent();
    }
    fn first_byte(&mut self) {
        self.0.first_byte();
        self.1.first_byte();
    }
    fn withdrawn(self: Box<Self>) {
        self.0.withdrawn();
        self.1.withdrawn();
    }
    fn ended(self: Box<Self>, how: Termination) {
        self.0.ended(how);
        self.1.ended(how);
    }
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

/// Whose response it is.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    /// The request.
    pub request: &'a Request,
    /// The endpoint that was chosen for it.
    pub endpoint: &'a Arc<Endpoint>,
    /// Name of the profile that chose it.
    pub profile: &'a Arc<str>,
    /// What the other profiles chose.
    pub others: &'a [StagePick],
    /// What the proxy says of it.
    pub served: Served<'a>,
}

/// Sees the head of every response (upstream: ResponseReceived).
pub trait ResponseHook: Send + Sync {
    /// Calls `set(name, value)` for each header that the response gets.
    fn response_head(&self, answered: &Answered<'_>, set: &mut dyn FnMut(&str, &str));
}

/// What an engine said of the tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the prompt.
    pub prompt: u64,
    /// Tokens generated.
    pub completion: u64,
    /// Both together, or what the engine says they are together.
    pub total: u64,
    /// Tokens of the prompt that were cached, where the engine tells.
    pub cached: Option<u64>,
}

/// A number about a finished request, for the proxy's dynamic metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Namespace of the metadata.
    pub namespace: Arc<str>,
    /// Key.
    pub name: Arc<str>,
    /// Value.
    pub value: i64,
}

/// Makes numbers of what a request used (upstream: ResponseBody).
pub trait UsageHook: Send + Sync {
    /// The number, where there is one.
    fn usage(&self, usage: &TokenUsage) -> Option<Attribute>;
}

/// Where durations of plugin calls go.
pub trait Timing: Send + Sync {
    /// One call took `seconds`.
    fn observe(&self, seconds: f64);

    /// A call that began `then` is over; says when.
    fn lap(&self, clock: &dyn Clock, then: Nanos) -> Nanos {
        let now = clock.now();
        self.observe(now.since(then).as_nanos() as f64 / 1e9);
        now
    }
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
