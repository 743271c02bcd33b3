//! The event loop: one heap, ordered by time and then by the order in which things were said.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use pointsman_core::Nanos;
use pointsman_sim::{Engine, Event, Leg, Request, What};

use super::FleetOptions;
use super::outcome::{Ended, Outcome, Sample};
use super::pooled::Pooled;
use super::transfer::{Links, leg};
use crate::BEGIN;
use crate::policy::{Ask, Gauges, Over, Policy, View};
use crate::workload::{When, Workload};

/// Told now and then how far a run is: requests that ended, and all. Breaking off ends the run with what there is.
pub type Progress<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// Events between two reports of progress.
const REPORT_EVERY: u64 = 65_536;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The next stage begins.
    Stage,
    /// The engine has something to say.
    Engine(u32),
    /// The engine's metrics are read.
    Scrape(u32),
    /// The request of that number comes.
    Arrive(u32),
    /// The request reaches the engine.
    Dispatch(u32, u32),
    /// The KV of the request's prompt has reached the engine that decodes.
    Fetched(u32),
}

/// Plays a workload to a fleet, under a policy.
pub fn run(
    options: &FleetOptions,
    workload: &Workload,
    policy: &mut dyn Policy,
    seed: u64,
    progress: &mut Progress<'_>,
) -> Outcome {
    let mut run = Run::new(options, workload, policy, seed);
    run.play(progress);
    run.outcome()
}

struct Run<'a> {
    options: &'a FleetOptions,
    workload: &'a Workload,
    policy: &'a mut dyn Policy,
    engines: Vec<Engine>,
    gauges: Vec<Gauges>,
    /// When each engine is in the heap for.
    scheduled: Vec<Option<Nanos>>,
    heap: BinaryHeap<Reverse<(Nanos, u64, Due)>>,
    serial: u64,
    now: Nanos,
    samples: Vec<Sample>,
    /// Block keys of requests that have still to reach an engine, or to get their first token.
    keys: Vec<Vec<u64>>,
    /// Requests that wait for the end of each.
    followers: Vec<Vec<u32>>,
    pooled: Option<Pooled>,
    links: Links,
    events: Vec<Event>,
    /// Stage in progress, and requests of it that have not ended.
    stage: usize,
    left: usize,
    began: Nanos,
    seconds: f64,
    ended: usize,
    turns: u64,
    cut: bool,
}

impl<'a> Run<'a> {
    fn new(options: &'a FleetOptions, workload: &'a Workload, policy: &'a mut dyn Policy, seed: u64) -> Self {
        let engines = options.engines(seed);
        let mut followers = vec![Vec::new(); workload.requests.len()];
        for (at, request) in workload.requests.iter().enumerate() {
            if let When::After(before, _) = request.when
                && let Some(list) = followers.get_mut(before as usize)
            {
                list.push(at as u32);
            }
        }
        let samples =
            workload.requests.iter().map(|r| Sample::new(Nanos(0), r.prompt.tokens.max(1), r.output.max(1))).collect();
        Self {
            gauges: vec![Gauges::default(); engines.len()],
            scheduled: vec![None; engines.len()],
            links: Links::new(engines.len(), options.disaggregation),
            engines,
            heap: BinaryHeap::new(),
            serial: 0,
            now: BEGIN,
            samples,
            keys: vec![Vec::new(); workload.requests.len()],
            followers,
            pooled: policy.pools_caches().then(Pooled::default),
            events: Vec::new(),
            stage: 0,
            left: 0,
            began: BEGIN,
            seconds: 0.0,
            ended: 0,
            turns: 0,
            cut: false,
            options,
            workload,
            policy,
        }
    }

    fn push(&mut self, at: Nanos, due: Due) {
        self.serial += 1;
        self.heap.push(Reverse((at.max(self.now), self.serial, due)));
    }

    fn play(&mut self, progress: &mut Progress<'_>) {
        let pods = self.engines.len() as u32;
        for pod in 0..pods {
            // All are known before the first request.
            self.scrape(pod, false);
        }
        for pod in 0..pods {
            let share = self.options.scrape.mul_f64(f64::from(pod + 1) / f64::from(pods));
            self.push(BEGIN.plus(share), Due::Scrape(pod));
        }
        self.begin_stage();
        while self.ended < self.workload.requests.len() {
            let Some(Reverse((at, _, due))) = self.heap.pop() else { break };
            self.now = at;
            self.turns += 1;
            match due {
                Due::Stage => self.begin_stage(),
                Due::Engine(pod) => {
                    // One that was put off or brought forward is in the heap for another time.
                    if self.scheduled[pod as usize] == Some(at) {
                        self.scheduled[pod as usize] = None;
                        self.advance(pod as usize);
                        self.schedule(pod as usize);
                    }
                }
                Due::Scrape(pod) => self.scrape(pod, true),
                Due::Arrive(request) => self.arrive(request),
                Due::Dispatch(request, pod) => self.dispatch(request, pod),
                Due::Fetched(request) => self.fetched(request),
            }
            if self.turns.is_multiple_of(REPORT_EVERY) && progress(self.ended, self.workload.requests.len()).is_break()
            {
                self.cut = true;
                break;
            }
        }
        if self.cut {
            self.seconds += self.now.since(self.began).as_secs_f64();
        }
    }

    /// Requests of the stage with a time of their own are on their way.
    fn begin_stage(&mut self) {
        let stages = &self.workload.stages;
        let first = stages.get(self.stage).copied().unwrap_or(0);
        let end = stages.get(self.stage + 1).copied().unwrap_or(self.workload.requests.len());
        self.stage += 1;
        self.began = self.now;
        self.left = end.saturating_sub(first);
        for at in first..end {
            if let When::At(after) = self.workload.requests[at].when {
                self.push(Nanos(self.now.0.saturating_add(after.0)), Due::Arrive(at as u32));
            }
        }
        if self.left == 0 && self.stage < stages.len() {
            self.push(self.now, Due::Stage);
        }
    }

    fn schedule(&mut self, pod: usize) {
        let next = self.engines[pod].next_event();
        if next != self.scheduled[pod] {
            self.scheduled[pod] = next;
            if let Some(at) = next {
                self.push(at, Due::Engine(pod as u32));
            }
        }
    }

    fn scrape(&mut self, pod: u32, again: bool) {
        let at = pod as usize;
        self.advance(at);
        let engine = &self.engines[at];
        self.gauges[at] =
            Gauges { waiting: engine.waiting(), running: engine.running(), kv_usage: engine.kv_usage(), at: self.now };
        self.policy.scraped(self.now, at, &self.engines[at]);
        if again {
            self.push(self.now.plus(self.options.scrape.max(std::time::Duration::from_millis(1))), Due::Scrape(pod));
        }
    }

    fn arrive(&mut self, number: u32) {
        let at = number as usize;
        let request = &self.workload.requests[at];
        // Steps that are over may have taken blocks that the oracle, or `held` below, would find cached.
        for pod in 0..self.engines.len() {
            self.advance(pod);
        }
        self.samples[at].arrived = self.now;
        let keys = request.prompt.blocks(self.options.block_size, usize::MAX, false);
        let view = View { now: self.now, engines: &self.engines, gauges: &self.gauges, options: self.options };
        let ask = Ask { id: number, request, keys: &keys };
        let picked = self.policy.pick(&ask, &view).filter(|pod| *pod < self.engines.len());
        let Some(pod) = picked else {
            self.end(number, Ended::Refused, false);
            return;
        };
        let held = match &self.pooled {
            Some(pooled) => pooled.find(&keys),
            None => self.engines.iter().map(|e| e.pool().find(keys.iter().copied()).0).max().unwrap_or(0),
        };
        // The last token is always computed.
        let most = (self.samples[at].prompt - 1) / u64::from(self.options.block_size);
        let prefill = self.policy.prefill().filter(|other| *other < self.engines.len() && *other != pod);
        let first = prefill.unwrap_or(pod) as u32;
        let sample = &mut self.samples[at];
        sample.pod = pod as u32;
        sample.prefill = prefill.map(|pod| pod as u32);
        sample.held = (held as u64).min(most) * u64::from(self.options.block_size);
        self.keys[at] = keys;
        self.push(self.now.plus(self.options.dispatch), Due::Dispatch(number, first));
    }

    fn dispatch(&mut self, number: u32, pod: u32) {
        let (at, engine) = (number as usize, pod as usize);
        self.advance(engine);
        let request = &self.workload.requests[at];
        let keys = std::mem::take(&mut self.keys[at]);
        let given = self.pooled.as_ref().map_or(0, |pooled| pooled.find(&keys));
        let leg = leg(&self.samples[at], pod);
        if self.pooled.is_some() || leg == Leg::Prefill {
            self.keys[at].clone_from(&keys);
        }
        let taken = self.engines[engine].submit(
            self.now,
            Request {
                id: u64::from(number),
                blocks: keys,
                prompt_tokens: request.prompt.tokens,
                output_tokens: request.output,
                lora: request.lora.clone(),
                given,
                leg,
            },
        );
        match taken {
            Ok(()) => self.schedule(engine),
            Err(_) => {
                if leg == Leg::Decode {
                    self.release(number);
                }
                self.end(number, Ended::Refused, true);
            }
        }
    }

    /// The decode engine has its prompt's KV, unless the prefill engine gave the blocks up before: then the request fails, as in vLLM.
    fn fetched(&mut self, number: u32) {
        let pod = self.samples[number as usize].pod as usize;
        self.advance(pod);
        if self.release(number) {
            self.engines[pod].receive(u64::from(number));
        } else {
            self.engines[pod].cancel(u64::from(number));
            self.end(number, Ended::Refused, true);
        }
        self.schedule(pod);
    }

    /// The prefill engine's blocks of a request are not needed any more. False when they were gone.
    fn release(&mut self, number: u32) -> bool {
        let Some(pod) = self.samples[number as usize].prefill.map(|pod| pod as usize) else { return false };
        self.advance(pod);
        let there = self.engines[pod].release(u64::from(number));
        self.schedule(pod);
        there
    }

    /// Lets the engine catch up, and says what happened.
    fn advance(&mut self, pod: usize) {
        let mut events = std::mem::take(&mut self.events);
        self.engines[pod].advance(self.now, &mut events);
        for event in events.drain(..) {
            let number = event.id as u32;
            let sample = &mut self.samples[number as usize];
            let leg = leg(sample, pod as u32);
            match event.what {
                What::Admitted { .. } if leg == Leg::Decode => {}
                What::Admitted { cached_tokens } => sample.cached = cached_tokens,
                What::Tokens { .. } if leg == Leg::Prefill => {}
                What::Finished if leg == Leg::Prefill => {
                    let decode = Due::Dispatch(number, sample.pod);
                    self.push(self.now.plus(self.options.dispatch), decode);
                }
                What::Fetching { tokens } => {
                    sample.moved = tokens;
                    let bytes = tokens as f64 * self.options.profile.model.kv_bytes_per_token;
                    let from = sample.prefill.map_or(pod, |other| other as usize);
                    let there = self.links.send(event.at, from, pod, bytes);
                    self.push(there, Due::Fetched(number));
                }
                What::Tokens { first: true, .. } => {
                    sample.first = event.at;
                    sample.last = event.at;
                    if let Some(pooled) = &mut self.pooled {
                        pooled.keep(&std::mem::take(&mut self.keys[number as usize]));
                    }
                    self.policy.first_token(event.at, number);
                }
                What::Tokens { .. } => sample.last = event.at,
                What::Preempted => {}
                What::Finished => {
                    sample.last = event.at;
                    self.end(number, Ended::Complete, true);
                }
            }
        }
        self.events = events;
    }

    fn end(&mut self, number: u32, how: Ended, picked: bool) {
        let at = number as usize;
        self.samples[at].ended = how;
        self.ended += 1;
        if picked {
            let sample = &self.samples[at];
            let over = Over {
                complete: how == Ended::Complete,
                prompt: sample.prompt,
                cached: sample.cached,
                output: sample.output,
            };
            self.policy.ended(self.now, number, &over);
        }
        for next in std::mem::take(&mut self.followers[at]) {
            if let When::After(_, think) = self.workload.requests[next as usize].when {
                self.push(self.now.plus(think), Due::Arrive(next));
            }
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.seconds += self.now.since(self.began).as_secs_f64();
            if self.stage < self.workload.stages.len() {
                self.push(self.now, Due::Stage);
            }
        }
    }

    fn outcome(self) -> Outcome {
        let samples = self.samples.into_iter().filter(|s| s.arrived.0 > 0).collect();
        let engines = self.engines.iter().map(Engine::stats).collect();
        Outcome { samples, engines, seconds: self.seconds, events: self.turns, cut: self.cut }
    }
}
