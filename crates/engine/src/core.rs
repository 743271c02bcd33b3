//! The engine model, its clock, and who waits for what.
//!
//! [`Shared`] is one engine: the model behind a lock, and one driver task that sleeps until the model's next event. Handlers hand
//! requests in and get a [`Ticket`]; its progress is a single value that is overwritten (how many tokens each answer has), so a
//! client that reads slowly costs no memory and sees several tokens at once, as with a real server. Dropping a ticket cancels.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::StatusCode;
use pointsman_core::Nanos;
use pointsman_sim::{Engine, Event, Leg, Request, Rng, SubmitError, What};
use tokio::sync::{Notify, watch};

use crate::adapters::Adapters;
use crate::error::ApiError;
use crate::metrics::{Ended, Metrics, Milestones};
use crate::options::Settings;
use crate::runtime::Runtime;

/// The driver wakes at most this often; what the model does in between is delivered together.
const LEAST_SLEEP: Duration = Duration::from_millis(1);

/// How far one answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) produced: u64,
    pub(crate) cached: u64,
    pub(crate) done: bool,
}

/// One prompt to be answered.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) keys: Vec<u64>,
    pub(crate) prompt_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) limit: Option<u64>,
    pub(crate) ended: Ended,
    pub(crate) lora: Option<Arc<str>>,
    pub(crate) leg: Leg,
}

type Progresses = watch::Sender<Vec<Progress>>;

struct Live {
    group: Arc<Progresses>,
    index: usize,
    times: Milestones,
    ended: Ended,
}

/// What the lock guards.
pub(crate) struct Core {
    pub(crate) engine: Engine,
    pub(crate) metrics: Metrics,
    pub(crate) runtime: Runtime,
    pub(crate) adapters: Adapters,
    pub(crate) rng: Rng,
    /// Pairs of running and waiting adapters that were on a metrics page, with the Unix time of the last one.
    pub(crate) lora_series: Vec<(String, String, f64)>,
    live: HashMap<u64, Live>,
    events: Vec<Event>,
    /// Prompts that come from other engines: when, and for which request.
    transfers: BTreeSet<(Nanos, u64)>,
    last_id: u64,
}

/// One engine.
pub(crate) struct Shared {
    pub(crate) settings: Settings,
    pub(crate) started: Instant,
    core: Mutex<Core>,
    wake: Notify,
}

impl Shared {
    pub(crate) fn new(settings: Settings, runtime: Runtime, adapters: Adapters) -> Arc<Self> {
        let engine = Engine::new(settings.engine.clone(), runtime.timing());
        let core = Core {
            engine,
            metrics: Metrics::default(),
            runtime,
            adapters,
            rng: Rng::new(settings.engine.seed ^ 0x5eed),
            lora_series: Vec::new(),
            live: HashMap::new(),
            events: Vec::new(),
            transfers: BTreeSet::new(),
            last_id: 0,
        };
        Arc::new(Self { settings, started: Instant::now(), core: Mutex::new(core), wake: Notify::new() })
    }

    /// The engine's time: real time since its start, times the speed.
    fn now(&self) -> Nanos {
        Nanos((self.started.elapsed().as_nanos() as f64 * self.settings.options.speed) as u64)
    }

    /// The core, brought up to now.
    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        // A panic in another handler must not take the engine down; every change below keeps the core whole.
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        core.catch_up(self.now(), self.settings.options.speed);
        core
    }

    /// Hands all prompts of one HTTP request in; none of them when one is refused.
    pub(crate) fn submit(self: &Arc<Self>, jobs: Vec<Job>) -> Result<Ticket, ApiError> {
        let speed = self.settings.options.speed;
        let (sender, progress) = watch::channel(vec![Progress::default(); jobs.len()]);
        let group = Arc::new(sender);
        let mut core = self.core();
        let now = self.now();
        let arrived = now.0 as f64 / 1e9 / speed;
        let mut ids = Vec::with_capacity(jobs.len());
        for (index, job) in jobs.into_iter().enumerate() {
            core.last_id += 1;
            let id = core.last_id;
            let request = Request {
                id,
                blocks: job.keys,
                prompt_tokens: job.prompt_tokens,
                output_tokens: job.output_tokens,
                lora: job.lora,
                leg: job.leg,
                ..Request::default()
            };
            if let Err(error) = core.engine.submit(now, request) {
                if matches!(error, SubmitError::QueueFull { .. }) {
                    core.metrics.refused += 1;
                }
                for id in ids {
                    core.engine.cancel(id);
                    core.live.remove(&id);
                }
                return Err(refusal(&error));
            }
            let times = Milestones { arrived, prompt: job.prompt_tokens, limit: job.limit, ..Milestones::default() };
            core.live.insert(id, Live { group: Arc::clone(&group), index, times, ended: job.ended });
            ids.push(id);
        }
        core.catch_up(now, speed);
        drop(core);
        self.wake.notify_one();
        Ok(Ticket { shared: Arc::clone(self), ids, progress })
    }

    fn cancel(&self, ids: &[u64]) {
        let mut core = self.core();
        for id in ids {
            if core.live.remove(id).is_some() && core.engine.cancel(*id) {
                core.metrics.ended[Ended::Abort as usize] += 1;
            }
        }
        drop(core);
        self.wake.notify_one();
    }

    /// Replaces the changeable configuration.
    pub(crate) fn set_runtime(&self, core: &mut Core, runtime: Runtime) {
        if runtime.latency != core.runtime.latency || runtime.profile != core.runtime.profile {
            core.engine.set_timing(self.now(), runtime.timing());
        }
        core.runtime = runtime;
        self.wake.notify_one();
    }
}

fn refusal(error: &SubmitError) -> ApiError {
    let status = match error {
        SubmitError::QueueFull { .. } => StatusCode::TOO_MANY_REQUESTS,
        SubmitError::TooLarge { .. } | SubmitError::NoLoraSlots => StatusCode::BAD_REQUEST,
    };
    ApiError::new(status, error.to_string())
}

impl Core {
    /// Lets the model reach `now` and tells everybody what happened.
    fn catch_up(&mut self, now: Nanos, speed: f64) {
        let mut events = std::mem::take(&mut self.events);
        loop {
            let due = self.transfers.first().copied().filter(|(at, _)| *at <= now);
            self.engine.advance(due.map_or(now, |(at, _)| at), &mut events);
            for event in events.drain(..) {
                self.tell(&event, event.at.0 as f64 / 1e9 / speed);
            }
            match due {
                Some(transfer) => {
                    self.transfers.remove(&transfer);
                    self.engine.receive(transfer.1);
                }
                None if self.transfers.first().is_some_and(|(at, _)| *at <= now) => {}
                None => break,
            }
        }
        self.events = events;
    }

    /// When something will happen next.
    fn next_event(&self) -> Option<Nanos> {
        self.engine.next_event().into_iter().chain(self.transfers.first().map(|(at, _)| *at)).min()
    }

    fn tell(&mut self, event: &Event, at: f64) {
        let metrics = &mut self.metrics;
        let Some(live) = self.live.get_mut(&event.id) else { return };
        let times = &mut live.times;
        match event.what {
            What::Admitted { cached_tokens } => {
                times.admitted = at;
                metrics.prompt_tokens += times.prompt;
                metrics.cached_tokens += cached_tokens;
                live.group.send_modify(|all| all[live.index].cached = cached_tokens);
            }
            What::Tokens { count, first } => {
                if first {
                    times.first = at;
                    metrics.ttft.observe(at - times.arrived, 1);
                } else {
                    metrics.inter_token.observe((at - times.last) / count as f64, count);
                }
                times.last = at;
                times.produced += count;
                metrics.generation_tokens += count;
                live.group.send_modify(|all| all[live.index].produced += count);
            }
            What::Fetching { tokens } => {
                self.transfers.insert((event.at.plus(self.runtime.transfer.of(tokens)), event.id));
            }
            What::Preempted => {}
            What::Finished => {
                metrics.finish(times, live.ended);
                live.group.send_modify(|all| all[live.index].done = true);
                self.live.remove(&event.id);
            }
        }
    }
}

/// Wakes the model at its events, until dropped.
pub(crate) async fn drive(engine: Arc<Shared>) {
    loop {
        let next = engine.core().next_event();
        let sleep = next.map(|at| {
            let ahead = at.0.saturating_sub(engine.now().0) as f64 / engine.settings.options.speed;
            Duration::from_nanos(ahead as u64).max(LEAST_SLEEP)
        });
        match sleep {
            Some(sleep) => {
                // An earlier event can only come with a new request or a new configuration.
                let _ = tokio::time::timeout(sleep, engine.wake.notified()).await;
            }
            None => engine.wake.notified().await,
        }
    }
}

/// Requests inside the engine on behalf of one HTTP request.
pub(crate) struct Ticket {
    shared: Arc<Shared>,
    ids: Vec<u64>,
    pub(crate) progress: watch::Receiver<Vec<Progress>>,
}

impl Ticket {
    /// Waits until every answer is complete.
    pub(crate) async fn finished(&mut self) -> Result<Vec<Progress>, ApiError> {
        match self.progress.wait_for(|all| all.iter().all(|p| p.done)).await {
            Ok(all) => Ok(all.clone()),
            Err(_) => Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "The engine has stopped.")),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.progress.borrow().iter().any(|p| !p.done) {
            self.shared.cancel(&self.ids);
        }
    }
}

/// Seconds since the Unix epoch.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
