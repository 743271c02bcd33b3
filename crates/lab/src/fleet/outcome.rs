//! What became of the requests of one run.

use pointsman_core::Nanos;
use pointsman_sim::Stats;

use crate::metrics::Course;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All its tokens came.
    Complete,
    /// The router found no endpoint for it.
    Unplaced,
    /// The engine refused it.
    Refused,
    /// Its engine died after its first token, or the KV of its prompt was given up before it was read.
    Broken,
    /// The run was broken off before.
    Open,
}

/// One request's fate. Times are of the run's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When it came.
    pub arrived: Nanos,
    /// When its first token came.
    pub first: Nanos,
    /// When its last token came.
    pub last: Nanos,
    /// Engine that served it.
    pub pod: u32,
    /// Engine that computed its prompt, where that was another.
    pub prefill: Option<u32>,
    /// Prompt tokens.
    pub prompt: u64,
    /// Of those, found in the cache of the engine that computed it.
    pub cached: u64,
    /// Prompt tokens whose KV came from another engine.
    pub moved: u64,
    /// Of those, held by some engine when it was sent: what the best choice would have found.
    pub held: u64,
    /// Generated tokens.
    pub output: u64,
    /// How it ended.
    pub ended: Ended,
}

impl Sample {
    pub(crate) fn new(arrived: Nanos, prompt: u64, output: u64) -> Self {
        let never = Nanos(0);
        Self {
            arrived,
            first: never,
            last: never,
            pod: 0,
            prefill: None,
            prompt,
            cached: 0,
            moved: 0,
            held: 0,
            output,
            ended: Ended::Open,
        }
    }

    /// Seconds from arrival to the first token.
    #[must_use]
    pub fn ttft(&self) -> f64 {
        self.first.since(self.arrived).as_secs_f64()
    }

    /// Seconds from arrival to the last token.
    #[must_use]
    pub fn e2e(&self) -> f64 {
        self.last.since(self.arrived).as_secs_f64()
    }

    /// Seconds per token after the first; `None` for an answer of one token.
    #[must_use]
    pub fn tpot(&self) -> Option<f64> {
        (self.output > 1).then(|| self.last.since(self.first).as_secs_f64() / (self.output - 1) as f64)
    }
}

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In the order of the workload; those that were warming up, or had not come yet when the run was broken off, are missing.
    pub samples: Vec<Sample>,
    /// Counters of each engine, over all its lives.
    pub engines: Vec<Stats>,
    /// Preemptions, since warming up.
    pub preemptions: u64,
    /// Seconds that requests were in the system, summed over stages: from a stage's beginning (or the end of warming up) to its last end.
    pub seconds: f64,
    /// The run over time, warming up included.
    pub course: Course,
    /// Events of the simulation.
    pub events: u64,
    /// Whether it was broken off.
    pub cut: bool,
}
