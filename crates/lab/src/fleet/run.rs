//! The event loop: one heap, ordered by time and then by the order in which things were said.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::ControlFlow;

use pointsman_core::Nanos;
use pointsman_sim::{Engine, Event, Leg, Request, Stats, What};

use super::FleetOptions;
use super::outcome::{Ended, Outcome, Sample};
use super::pooled::Pooled;
use super::transfer::{Links, leg};
use crate::BEGIN;
use crate::metrics::Course;
use crate::policy::{Ask, Gauges, Over, Policy, View};
use crate::workload::{When, Workload};

/// Told now and then how far a run is: requests that ended, and all. Breaking off ends the run with what there is.
pub type Progress<'a> = dyn FnMut(usize, usize) -> ControlFlow<()> + 'a;

/// Events between two reports of progress.
const REPORT_EVERY: u64 = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Due {
    /// The next stage begins.
    Stage,
    /// The engine has something to say.
    Engine(u32),
    /// The engine dies.
    Down(u32),
    /// Routers know that the engine is down.
    Noticed(u32),
    /// The engine is there again.
    Back(u32),
    /// The request of that number comes.
    Arrive(u32),
    /// The request reaches the engine.
    Dispatch(u32, u32),
    /// The KV of the request's prompt has reached the engine that decodes.
    Fetched(u32, u32),
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

pub(super) struct Run<'a> {
    pub(super) options: &'a FleetOptions,
    workload: &'a Workload,
    pub(super) policy: &'a mut dyn Policy,
    pub(super) engines: Vec<Engine>,
    pub(super) seed: u64,
    /// Engines that live.
    pub(super) alive: Vec<bool>,
    /// Engines that are up as far as routers know.
    pub(super) up: Vec<usize>,
    /// Counters of lives that are over.
    pub(super) past: Vec<Stats>,
    pub(super) gauges: Vec<Gauges>,
    /// When each engine is in the heap for.
    pub(super) scheduled: Vec<Option<Nanos>>,
    heap: BinaryHeap<Reverse<(Nanos, u64, Due)>>,
    /// When the metrics of which engine are read next: always in order of time, since all wait equally long.
    pub(super) scrapes: VecDeque<(Nanos, u32)>,
    /// Whether an engine has changed, or may yet, since its metrics were read.
    pub(super) changed: Vec<bool>,
    pub(super) serial: u64,
    pub(super) now: Nanos,
    pub(super) samples: Vec<Sample>,
    /// How often each request was placed.
    attempts: Vec<u32>,
    /// Block keys of requests that have still to reach an engine, or to get their first token.
    keys: Vec<Vec<u64>>,
    /// Requests that wait for the end of each.
    followers: Vec<Vec<u32>>,
    pooled: Option<Pooled>,
    links: Links,
    events: Vec<Event>,
    pub(super) course: Course,
    /// Stage in progress, and requests of it that have not ended.
    stage: usize,
    left: usize,
    began: Nanos,
    seconds: f64,
    /// Preemptions before counting began; `None` while warming up.
    counting: Option<u64>,
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
            seed,
            alive: vec![true; engines.len()],
            up: (0..engines.len()).collect(),
            past: vec![Stats::default(); engines.len()],
            scheduled: vec![None; engines.len()],
            links: Links::new(engines.len(), options.disaggregation),
            engines,
            heap: BinaryHeap::new(),
            scrapes: VecDeque::new(),
            changed: vec![false; options.pods.max(1)],
            serial: 0,
            now: BEGIN,
            samples,
            attempts: vec![0; workload.requests.len()],
            keys: vec![Vec::new(); workload.requests.len()],
            followers,
            pooled: policy.pools_caches().then(Pooled::default),
            events: Vec::new(),
            course: Course::default(),
            stage: 0,
            left: 0,
            began: BEGIN,
            seconds: 0.0,
            counting: (workload.warm == 0).then_some(0),
            ended: 0,
            turns: 0,
            cut: false,
            options,
            workload,
            policy,
        }
    }

    pub(super) fn push(&mut self, at: Nanos, due: Due) {
        self.serial += 1;
        self.heap.push(Reverse((at.max(self.now), self.serial, due)));
    }

    fn play(&mut self, progress: &mut Progress<'_>) {
        let pods = self.engines.len() as u32;
        for pod in 0..pods {
            // All are known before the first request.
            self.scrape(pod);
        }
        for pod in 0..pods {
            let share = self.interval().mul_f64(f64::from(pod + 1) / f64::from(pods));
            self.scrapes.push_back((BEGIN.plus(share), pod));
        }
        for outage in &self.options.outages {
            if outage.pod < self.engines.len() {
                self.push(BEGIN.plus(outage.from), Due::Down(outage.pod as u32));
                if let Some(to) = outage.to {
                    self.push(BEGIN.plus(to), Due::Back(outage.pod as u32));
                }
            }
        }
        self.begin_stage();
        while self.ended < self.workload.requests.len() {
            let Some(&Reverse((at, _, due))) = self.heap.peek() else { break };
            self.turns += 1;
            if let Some(pod) = self.scraped_before(at) {
                self.scrape(pod);
            } else {
                self.heap.pop();
                self.now = at;
                self.happen(due);
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

    fn happen(&mut self, due: Due) {
        match due {
            Due::Stage => self.begin_stage(),
            Due::Engine(pod) => {
                // One that was put off or brought forward is in the heap for another time.
                if self.scheduled[pod as usize] == Some(self.now) {
                    self.scheduled[pod as usize] = None;
                    self.changed[pod as usize] = true;
                    self.advance(pod as usize);
                    self.schedule(pod as usize);
                }
            }
            Due::Down(pod) => self.die(pod),
            Due::Noticed(pod) => self.notice(pod as usize),
            Due::Back(pod) => self.live(pod),
            Due::Arrive(request) => self.arrive(request),
            Due::Dispatch(request, pod) => self.dispatch(request, pod),
            Due::Fetched(request, attempt) => self.fetched(request, attempt),
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

    fn arrive(&mut self, number: u32) {
        let at = number as usize;
        if self.counting.is_none() && at >= self.workload.warm {
            self.counting = Some(self.preemptions());
            (self.began, self.seconds) = (self.now, 0.0);
        }
        self.samples[at].arrived = self.now;
        self.place(number);
    }

    /// Asks the policy, also again when an engine died before it said anything.
    pub(super) fn place(&mut self, number: u32) {
        let at = number as usize;
        let request = &self.workload.requests[at];
        // Steps that are over may have taken blocks that the oracle, or `held` below, would find cached.
        for pod in 0..self.engines.len() {
            self.advance(pod);
        }
        self.attempts[at] += 1;
        let keys = request.prompt.blocks(self.options.block_size, usize::MAX, false);
        let (engines, up) = (&self.engines[..], &self.up[..]);
        let view = View { now: self.now, engines, up, gauges: &self.gauges, options: self.options };
        let ask = Ask { id: number, request, keys: &keys };
        let picked = if up.is_empty() { None } else { self.policy.pick(&ask, &view) };
        let picked = picked.filter(|pod| *pod < self.engines.len());
        let Some(pod) = picked else {
            self.end(number, Ended::Unplaced, false);
            return;
        };
        let held = match &self.pooled {
            Some(pooled) => pooled.find(&keys),
            None => up.iter().map(|pod| engines[*pod].pool().find(keys.iter().copied()).0).max().unwrap_or(0),
        };
        // The last token is always computed.
        let most = (self.samples[at].prompt - 1) / u64::from(self.options.block_size);
        let prefill = self.policy.prefill().filter(|other| *other < self.engines.len() && *other != pod);
        let first = prefill.unwrap_or(pod) as u32;
        let sample = &mut self.samples[at];
        sample.pod = pod as u32;
        sample.prefill = prefill.map(|pod| pod as u32);
        sample.moved = 0;
        sample.held = (held as u64).min(most) * u64::from(self.options.block_size);
        self.keys[at] = keys;
        self.push(self.now.plus(self.options.dispatch), Due::Dispatch(number, first));
    }

    fn dispatch(&mut self, number: u32, pod: u32) {
        let (at, engine) = (number as usize, pod as usize);
        if !self.alive[engine] {
            self.again(number);
            return;
        }
        self.advance(engine);
        self.changed[engine] = true;
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
    fn fetched(&mut self, number: u32, attempt: u32) {
        if self.attempts[number as usize] != attempt {
            return;
        }
        let pod = self.samples[number as usize].pod as usize;
        self.advance(pod);
        if self.release(number) {
            self.engines[pod].receive(u64::from(number));
        } else {
            self.engines[pod].cancel(u64::from(number));
            self.end(number, Ended::Broken, true);
        }
        self.schedule(pod);
    }

    /// The prefill engine's blocks of a request are not needed any more. False when they were gone.
    pub(super) fn release(&mut self, number: u32) -> bool {
        let Some(pod) = self.samples[number as usize].prefill.map(|pod| pod as usize) else { return false };
        self.advance(pod);
        let there = self.engines[pod].release(u64::from(number));
        self.changed[pod] = self.alive[pod];
        self.schedule(pod);
        there
    }

    /// Lets the engine catch up, and says what happened.
    pub(super) fn advance(&mut self, pod: usize) {
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
                    self.push(there, Due::Fetched(number, self.attempts[number as usize]));
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

    pub(super) fn end(&mut self, number: u32, how: Ended, picked: bool) {
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
        let preemptions = self.preemptions() - self.counting.unwrap_or(0);
        let engines = (0..self.engines.len()).map(|pod| self.stats(pod)).collect();
        let mut course = self.course;
        for s in self.samples.iter().filter(|s| s.first > s.arrived) {
            course.request(s.arrived, s.ttft(), s.prompt, s.cached);
        }
        let counted = self.samples.into_iter().skip(self.workload.warm);
        let samples = counted.filter(|s| s.arrived.0 > 0).collect();
        Outcome { samples, engines, preemptions, seconds: self.seconds, course, events: self.turns, cut: self.cut }
    }
}
