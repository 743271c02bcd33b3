//! Steps `gather`, `schedule` and `send`: from a request that is understood to an endpoint, with the record of how.

use crate::metrics::RequestSeries;
use crate::pool::Pool;
use crate::prepare::{Ahead, Joining, Known};
use crate::read::Reading;
use crate::resolve::{Located, Resolved, Rewrite, locate, resolve};
use crate::routed::{Routed, RoutedParts};
use crate::trace::Trace;
use bytes::Bytes;
use parking_lot::Mutex;
use pointsman_core::{ErrorCode, Nanos, Refusal, xxh64};
use pointsman_fleet::Snapshot;
use pointsman_scheduling::record::{Decision, Outcome, ProfileRecord, PromptText, Shadowed, Signals, Steps};
use pointsman_scheduling::{Candidate, Cycle, Facts, PrefixMatch, Scheduled, Scope, StagePick};
use pointsman_wire::body::{Api, splice};
use std::cell::RefCell;
use std::sync::Arc;

/// A request that is not routed.
#[derive(Debug)]
pub struct Refused {
    /// What the client is told.
    pub refusal: Refusal,
    /// The record.
    pub decision: Arc<Decision>,
}

thread_local! {
    static RNG: RefCell<fastrand::Rng> = RefCell::new(fastrand::Rng::new());
}

/// Makes the draws of this thread's decisions follow from `seed` from here on, so that a simulation can be repeated.
pub fn seed_draws(seed: u64) {
    RNG.with_borrow_mut(|rng| rng.seed(seed));
}

pub(crate) fn with_rng<R>(run: impl FnOnce(&mut fastrand::Rng) -> R) -> R {
    RNG.with_borrow_mut(run)
}

/// Time between the steps of one request, and its trace.
struct Laps<'a> {
    pool: &'a Pool,
    then: Nanos,
    trace: Option<Trace>,
}

impl Laps<'_> {
    fn lap(&mut self) -> u64 {
        let now = self.pool.clock.now();
        let took = now.since(self.then).as_nanos() as u64;
        self.then = now;
        took
    }
}

/// A request whose candidates can be looked at.
struct Understood {
    resolved: Resolved,
    facts: Facts,
    series: Arc<RequestSeries>,
    /// What plugins that held it back have to say.
    joined: Vec<Joining>,
}

/// Everything a record is made of but the profiles.
struct Sketch<'a> {
    reading: &'a Reading,
    model: Arc<str>,
    target: Arc<str>,
    request_id: Arc<str>,
    tokens: u64,
    blocks: u32,
    steps: Steps,
}

pub(crate) fn decide(mut reading: Reading) -> Result<Routed, Refused> {
    let pool = Arc::clone(&reading.pool);
    let mut laps = Laps { pool: &pool, then: pool.clock.now(), trace: None };
    let mut steps = Steps::default();
    let fleet = pool.fleet.snapshot();

    let trace = reading.trace.take();
    let Ahead { known, joined, waited, .. } = reading.ahead.take().map(|ahead| *ahead).unwrap_or_default();
    steps.wait = waited.as_nanos() as u64;
    let known = match known {
        Known::Nothing => Known::Body(reading.parsed()),
        known => known,
    };
    steps.read = laps.lap();
    let understood = laps.then;
    let resolved = match known {
        Known::Request(resolved) => resolved,
        Known::Body(Ok(parsed)) => resolve(&reading, parsed),
        Known::Body(Err(refusal)) => Err((refusal, "".into())),
        Known::Nothing => unreachable!("it was read just now"),
    };
    let mut resolved = match resolved {
        Ok(resolved) => resolved,
        Err((refusal, model)) => return Err(refuse_early(&reading, &fleet, refusal, model, steps, trace)),
    };
    laps.trace = trace;
    if let Some(trace) = &mut laps.trace {
        resolved.request.timed = trace.is_recorded();
        trace.resolved(&resolved.request, understood);
    }
    let now = laps.then;
    let located = locate(&fleet, &reading.head, &resolved.request.target_model, now, pool.stale_after);
    let mut facts = reading.active.compiled.columns.facts();
    let hooks = &reading.active.compiled.request_hooks;
    if !hooks.is_empty() {
        let mut then = pool.clock.now();
        for hook in hooks {
            hook.request(&mut resolved.request, &mut facts);
            then = hook.timing.lap(&*pool.clock, then);
        }
    }
    let series = pool.metrics.series(&resolved.request);
    if reading.has_body() {
        series.received();
    }
    steps.resolve = laps.lap();
    schedule(&reading, Understood { resolved, facts, series, joined }, &fleet, &located, laps, steps)
}

/// Refuses what was not read to its end.
pub(crate) fn refuse_unread(mut reading: Reading, refusal: Refusal) -> Refused {
    let (fleet, trace) = (reading.pool.fleet.snapshot(), reading.trace.take());
    refuse_early(&reading, &fleet, refusal, "".into(), Steps::default(), trace)
}

/// Refuses a request before its candidates are looked at.
fn refuse_early(
    reading: &Reading,
    fleet: &Arc<Snapshot>,
    refusal: Refusal,
    model: Arc<str>,
    steps: Steps,
    trace: Option<Trace>,
) -> Refused {
    let pool = &reading.pool;
    let series = pool.metrics.unread(&model);
    if reading.has_body() {
        series.received();
    }
    let sketch = Sketch {
        reading,
        target: Arc::clone(&model),
        model,
        request_id: reading.head.header(pointsman_core::headers::REQUEST_ID).unwrap_or_default().into(),
        tokens: 0,
        blocks: 0,
        steps,
    };
    refuse(pool, &series, sketch, refusal, fleet, Box::new([]), trace)
}

fn schedule(
    reading: &Reading,
    understood: Understood,
    fleet: &Arc<Snapshot>,
    located: &Located<'_>,
    mut laps: Laps<'_>,
    mut steps: Steps,
) -> Result<Routed, Refused> {
    let pool = &reading.pool;
    let now = located.now;
    let compiled = &reading.active.compiled;
    let Understood { resolved: Resolved { request, stream, rewrite, text }, mut facts, series, joined } = understood;
    let tokens = request.prompt_tokens();
    let blocks: usize = request.prompts.iter().map(|p| p.contents.len()).sum();
    let sketch = |steps| Sketch {
        reading,
        model: Arc::clone(&request.incoming_model),
        target: Arc::clone(&request.target_model),
        request_id: Arc::clone(&request.id),
        tokens,
        blocks: blocks as u32,
        steps,
    };
    let kept: Vec<u32> = (0..located.candidates.len() as u32).collect();
    let all = Scope { all: &located.candidates, kept: &kept };
    if all.is_empty() {
        let refusal = located.refusal(&request.target_model);
        let profiles = bystanders(compiled, located, &Facts::default());
        return Err(refuse(pool, &series, sketch(steps), refusal, fleet, profiles, laps.trace));
    }

    // Gather.
    let mut then = laps.then;
    for Joining { says, timing } in &joined {
        says.produce(&request, all, now, &mut facts);
        then = timing.lap(&*pool.clock, then);
    }
    for producer in &compiled.producers {
        producer.produce(&request, all, now, &mut facts);
        then = producer.timing.lap(&*pool.clock, then);
    }
    steps.gather = laps.lap();

    // Schedule.
    let cycle =
        Cycle { request: &request, facts: &facts, now, peer: None, seed: with_rng(|rng| rng.u64(..)), shadow: false };
    for admitter in &compiled.admitters {
        let then = pool.clock.now();
        let admitted = admitter.admit(&cycle, all);
        admitter.timing.lap(&*pool.clock, then);
        if let Err(refusal) = admitted {
            return Err(refuse(pool, &series, sketch(steps), refusal, fleet, Box::default(), laps.trace));
        }
    }
    let scheduled = with_rng(|rng| compiled.scheduler.schedule(&cycle, all, rng, &*pool.clock));
    steps.schedule = laps.lap();
    if let Some(trace) = &mut laps.trace {
        trace.scheduled(compiled, &scheduled.runs, &located.candidates, &request);
    }
    let model = &*request.target_model;
    let recorded = if pool.ring.keeps() { &scheduled.runs[..] } else { &[] };
    let profiles: Box<[ProfileRecord]> = recorded
        .iter()
        .map(|(p, run)| {
            let profile = &compiled.scheduler.profiles[*p];
            let signals = |c: &Candidate<'_>| Signals::of(c, model, now);
            ProfileRecord::of(profile, run, &located.candidates, &located.out, &facts, signals, tokens)
        })
        .collect();
    let Scheduled { mut runs, answer } = scheduled;
    pool.metrics.scheduled(steps.schedule as f64 / 1e9);
    let answer = match answer {
        Ok(answer) => answer,
        Err(refusal) => {
            pool.metrics.attempt_failed(model);
            return Err(refuse(pool, &series, sketch(steps), refusal, fleet, profiles, laps.trace));
        }
    };
    let mut run_of = |p: usize| {
        let at = runs.iter().position(|(n, run)| *n == p && !run.picked.is_empty())?;
        Some(std::mem::take(&mut runs[at].1))
    };
    let Some(run) = run_of(answer.primary) else {
        pool.metrics.attempt_failed(model);
        let refusal = Refusal::new(ErrorCode::Internal, "results must be greater than zero");
        return Err(refuse(pool, &series, sketch(steps), refusal, fleet, profiles, laps.trace));
    };

    let held = facts.any::<PrefixMatch>().and_then(|p| p.get(run.picked[0] as usize)).copied();
    let predicted = held.map_or(0, |m| m.tokens(tokens));
    let enough = || {
        let handler = &compiled.scheduler.handler;
        let held = held.is_none_or(|m| m.matched > 0);
        handler.holds_enough(&request, &facts, run.picked[0]).unwrap_or(held)
    };
    if only_if_available(&reading.head) && !enough() {
        let refusal = Refusal::new(ErrorCode::PreconditionFailed, "no decode worker has the requested KV cache");
        return Err(refuse(pool, &series, sketch(steps), refusal, fleet, profiles, laps.trace));
    }

    let shadow = pool.shadow.load();
    let shadowed = shadow.as_ref().map(|shadow| {
        Box::new(shadow.compare(
            pool,
            (compiled, &facts),
            (&request, all),
            (now, cycle.seed),
            (run.picked[0], predicted),
        ))
    });

    // Send.
    let body: Arc<[Bytes]> = match &rewrite {
        Some(Rewrite::Replace(span)) => splice(&reading.chunks, span.clone(), &request.target_model).into(),
        Some(Rewrite::Insert) => with_model(&reading.chunks, &request.target_model).into(),
        None => Arc::from(&reading.chunks[..]),
    };
    let hashes = pool.record_block_hashes.then(|| salted(&facts));
    let prompt = text.map(|text| {
        let chain = facts.chains.first().map_or(&[][..], Vec::as_slice).into();
        Box::new(PromptText { bytes: text.bytes.into(), block_bytes: text.block_bytes, chain })
    });
    let places: Vec<u32> = located.candidates.iter().map(|c| c.index).collect();
    let endpoint = &fleet.endpoints[places[run.picked[0] as usize] as usize];
    let others: Vec<StagePick> = answer
        .others
        .iter()
        .filter_map(|&(p, role)| {
            let candidates = run_of(p)?.picked;
            let endpoint = |c: &u32| Arc::clone(&fleet.endpoints[places[*c as usize] as usize]);
            Some(StagePick {
                profile: Arc::clone(&compiled.scheduler.profiles[p].name),
                role,
                endpoints: candidates.iter().map(endpoint).collect(),
                candidates,
            })
        })
        .collect();
    if let Some(kind) = answer.decision {
        pool.metrics.disaggregated(&compiled.scheduler.handler, model, kind);
    }
    let outcome = Outcome {
        endpoint: Some(Arc::clone(endpoint.meta.host_port_shared())),
        cached_tokens_predicted: predicted,
        ..Outcome::default()
    };
    let parts = RoutedParts {
        pool: Arc::clone(pool),
        active: Arc::clone(&reading.active),
        fleet: Arc::clone(fleet),
        api: reading.path.map_or(Api::Raw, |p| p.api),
        request,
        facts,
        places,
        run,
        primary: answer.primary,
        others,
        port: answer.port,
        stream,
        body,
        series,
        bodyless: !reading.has_body(),
        rewritten: rewrite.is_some(),
    };
    let trace = laps.trace.take();
    let mut routed = Routed::new(parts);
    steps.send = laps.lap();
    let sketch = Sketch {
        reading,
        model: Arc::clone(&routed.request().incoming_model),
        target: Arc::clone(&routed.request().target_model),
        request_id: Arc::clone(&routed.request().id),
        tokens,
        blocks: blocks as u32,
        steps,
    };
    let beside = Beside { block_hashes: hashes, prompt, shadow: shadowed };
    let decision = record(pool, sketch, fleet, profiles, beside, outcome);
    if reading.has_body() {
        pool.metrics.processed(laps.then.since(reading.head.received));
    }
    routed.on_record(
        decision,
        trace.map(|mut trace| {
            trace.routed(laps.then);
            trace
        }),
    );
    Ok(routed)
}

/// Whether the client would rather have no answer than one whose prompt must be computed (`prefer: if-available`).
fn only_if_available(head: &crate::RequestHead) -> bool {
    let token = |t: &str| t.split(';').next().is_some_and(|t| t.trim().eq_ignore_ascii_case("if-available"));
    head.header("prefer").is_some_and(|value| value.split(',').any(token))
}

/// Profiles of a request that had no candidates: who was out, and why.
fn bystanders(compiled: &pointsman_plugins::Compiled, located: &Located<'_>, facts: &Facts) -> Box<[ProfileRecord]> {
    let run = pointsman_scheduling::ProfileRun::default();
    let signals = |c: &Candidate<'_>| Signals::of(c, "", Nanos(0));
    let record = |profile| ProfileRecord::of(profile, &run, &[], &located.out, facts, signals, 0);
    compiled.scheduler.profiles.iter().take(1).map(record).collect()
}

/// Block hashes under a salt of the process, so that equal prompts can be told from a recording, but not what they were.
fn salted(facts: &Facts) -> Box<[u64]> {
    static SALT: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
    let salt = *SALT.get_or_init(|| fastrand::u64(..));
    let hash = |h: &pointsman_core::BlockHash| {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&salt.to_le_bytes());
        bytes[8..].copy_from_slice(&h.0.to_le_bytes());
        xxh64(&bytes)
    };
    facts.chains.iter().flatten().map(hash).collect()
}

/// What only some records hold.
#[derive(Default)]
struct Beside {
    block_hashes: Option<Box<[u64]>>,
    prompt: Option<Box<PromptText>>,
    shadow: Option<Box<Shadowed>>,
}

fn record(
    pool: &Pool,
    sketch: Sketch<'_>,
    fleet: &Arc<Snapshot>,
    profiles: Box<[ProfileRecord]>,
    beside: Beside,
    outcome: Outcome,
) -> Arc<Decision> {
    let at = pool.clock.unix_millis();
    let head = &sketch.reading.head;
    let decision = Arc::new(Decision {
        id: pool.ids.next(at),
        at_unix_ms: at,
        request_id: sketch.request_id,
        transport: head.transport,
        method: Arc::clone(&head.method),
        path: Arc::clone(&head.path),
        model: sketch.model,
        target_model: sketch.target,
        prompt_tokens_estimated: sketch.tokens,
        blocks: (sketch.reading.block_tokens, sketch.blocks),
        config_version: sketch.reading.active.version,
        fleet: Arc::clone(&fleet.directory),
        profiles,
        steps: sketch.steps,
        block_hashes: beside.block_hashes,
        prompt: beside.prompt,
        shadow: beside.shadow,
        outcome: Mutex::new(outcome),
    });
    pool.ring.push(Arc::clone(&decision));
    decision
}

fn refuse(
    pool: &Pool,
    series: &RequestSeries,
    sketch: Sketch<'_>,
    refusal: Refusal,
    fleet: &Arc<Snapshot>,
    profiles: Box<[ProfileRecord]>,
    trace: Option<Trace>,
) -> Refused {
    if let Some(trace) = trace {
        trace.refused(&refusal, pool.clock.now());
    }
    if sketch.reading.has_body() {
        pool.metrics.refused(series, refusal.code);
        pool.metrics.processed(pool.clock.now().since(sketch.reading.head.received));
    }
    let outcome = Outcome {
        status: Some(refusal.code.status()),
        error: Some(refusal.message.to_string()),
        ended: Some("refused"),
        ..Outcome::default()
    };
    let decision = record(pool, sketch, fleet, profiles, Beside::default(), outcome);
    pool.tell_finished(&decision);
    Refused { refusal, decision }
}

/// A JSON object with `model` put behind its members, where it counts even if another value of that name stands before it. The object is known to be
/// read, and not to be empty.
fn with_model(chunks: &[Bytes], model: &str) -> Vec<Bytes> {
    let mut out = chunks.to_vec();
    let end = out.iter().enumerate().rev().find_map(|(i, c)| Some((i, c.iter().rposition(|b| *b == b'}')?)));
    if let Some((i, brace)) = end {
        let member = format!(",\"model\":{}", serde_json::Value::from(model));
        let chunk = out[i].clone();
        out.splice(i..=i, [chunk.slice(..brace), member.into(), chunk.slice(brace..)]);
    }
    out
}

/// Bytes of a body in pieces.
pub(crate) fn length(chunks: &[Bytes]) -> u64 {
    chunks.iter().map(|c| c.len() as u64).sum()
}
