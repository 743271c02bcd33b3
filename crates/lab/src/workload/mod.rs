//! What the fleet is asked: a list of timed requests, made by a generator or read from a trace.
//!
//! A workload is plain data and fully decided before anything runs, so that every policy meets the same one. A request comes at a time of its own, or
//! some time after another request ended (a next turn, a user of a closed loop).

mod arrivals;
mod ideal;
mod lengths;
mod mooncake;
mod named;
mod prompt;
mod read;
mod sessions;
mod shared_prefix;
mod table;

use std::sync::Arc;
use std::time::Duration;

use pointsman_core::Nanos;

pub use arrivals::Arrivals;
pub use ideal::{Sharing, sharing};
pub use lengths::Lengths;
pub(crate) use lengths::MOST as MOST_TOKENS;
pub use named::{NAMED, Named, Spec, SpecError};
pub use prompt::Prompt;
pub use read::{Format, ReadError, lines, read};
pub use sessions::Sessions;
pub use shared_prefix::{Ending, SharedPrefix, Stage};

/// Ids of content that one workload may hold: a gibibyte of them.
const MOST_IDS: usize = 1 << 27;

/// When a request comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this time since the beginning of its stage.
    At(Nanos),
    /// So long after the request of that number ended, however it ended. The number is smaller than its own.
    After(u32, Duration),
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it comes.
    pub when: When,
    /// What is asked.
    pub prompt: Prompt,
    /// Tokens that will be generated, at least 1.
    pub output: u64,
    /// Conversation it belongs to.
    pub session: Option<u64>,
    /// LoRA adapter it asks for.
    pub lora: Option<Arc<str>>,
}

/// Requests in order, and in stages: a stage begins when all requests of the one before have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What a person calls it.
    pub name: String,
    /// The requests. Times of [`When::At`] do not fall within a stage.
    pub requests: Vec<Arrival>,
    /// Number of each stage's first request, from 0, growing.
    pub stages: Vec<usize>,
    /// So many first requests fill caches and indexes, and are not counted.
    pub warm: usize,
    /// Rows of a table that were left out: no answer came of them.
    pub unanswered: usize,
}

impl Workload {
    /// One stage, requests sorted by time where all have one.
    #[must_use]
    pub fn new(name: impl Into<String>, mut requests: Vec<Arrival>) -> Self {
        if requests.iter().all(|r| matches!(r.when, When::At(_))) {
            requests.sort_by_key(|r| match r.when {
                When::At(at) => at,
                When::After(..) => Nanos(u64::MAX),
            });
        }
        Self { name: name.into(), requests, stages: vec![0], warm: 0, unanswered: 0 }
    }

    /// Everything comes `factor` times as fast: arrivals and think times, not the engines.
    #[must_use]
    pub fn faster(mut self, factor: f64) -> Self {
        let factor = if factor.is_finite() && factor > 0.0 { factor } else { 1.0 };
        for request in &mut self.requests {
            request.when = match request.when {
                When::At(at) => When::At(Nanos((at.0 as f64 / factor) as u64)),
                When::After(which, think) => {
                    When::After(which, Duration::from_nanos((think.as_nanos() as f64 / factor) as u64))
                }
            };
        }
        self
    }

    /// Requests per second of its timed arrivals; `None` when it has no more than one, or all at once.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let mut seconds = 0.0;
        let mut timed = 0_usize;
        for (at, &first) in self.stages.iter().enumerate() {
            let end = self.stages.get(at + 1).copied().unwrap_or(self.requests.len());
            let times = self.requests.get(first..end)?.iter().filter_map(|r| match r.when {
                When::At(at) => Some(at.0),
                When::After(..) => None,
            });
            timed += times.clone().count();
            seconds += times.max()? as f64 / 1e9;
        }
        (timed > 1 && seconds > 0.0).then(|| timed as f64 / seconds)
    }

    /// Only the first `most` requests.
    #[must_use]
    pub fn first(mut self, most: usize) -> Self {
        self.requests.truncate(most);
        self.stages.retain(|&first| first == 0 || first < most);
        self
    }

    /// The first `fraction` (0 to 1) of its requests, and the others as a workload of their own that begins at once.
    ///
    /// A request of the second half that follows one of the first half comes at the beginning.
    #[must_use]
    pub fn split(self, fraction: f64) -> (Self, Self) {
        let cut = (self.requests.len() as f64 * fraction.clamp(0.0, 1.0)) as usize;
        let mut rest = self.requests[cut..].to_vec();
        let begin = rest.iter().find_map(|r| match r.when {
            When::At(at) => Some(at.0),
            When::After(..) => None,
        });
        let begin = if self.stages.len() > 1 { 0 } else { begin.unwrap_or(0) };
        for request in &mut rest {
            request.when = match request.when {
                When::At(at) => When::At(Nanos(at.0.saturating_sub(begin))),
                When::After(which, think) => match (which as usize).checked_sub(cut) {
                    Some(which) => When::After(which as u32, think),
                    None => When::At(Nanos(think.as_nanos() as u64)),
                },
            };
        }
        let mut stages: Vec<usize> = self.stages.iter().filter_map(|s| s.checked_sub(cut)).collect();
        if stages.first() != Some(&0) {
            stages.insert(0, 0);
        }
        let name = self.name.clone();
        let warm = self.warm.saturating_sub(cut);
        (self.first(cut), Self { name, requests: rest, stages, warm, unanswered: 0 })
    }

    /// Prompt tokens of all requests.
    #[must_use]
    pub fn prompt_tokens(&self) -> u64 {
        self.requests.iter().map(|r| r.prompt.tokens).sum()
    }

    /// Tokens that will be generated.
    #[must_use]
    pub fn output_tokens(&self) -> u64 {
        self.requests.iter().map(|r| r.output).sum()
    }
}
