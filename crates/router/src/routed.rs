//! Step `observe`: what becomes of a routed request. Its end is reached exactly once, on every path.

use crate::decide::{length, with_rng};
use crate::metrics::{InFlight, RequestSeries};
use crate::pool::{Active, Pool};
use crate::rename;
use crate::trace::{Trace, TraceHeaders};
use bytes::Bytes;
use pointsman_core::{Nanos, headers};
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_scheduling::record::{Decision, Retry};
use pointsman_scheduling::{
    AddedHeaders, Answered, Attribute, Chosen, Facts, Held, PrefixMatch, ProfileRun, Request, Role, Served, StagePick,
    Termination, TokenUsage, UncachedTokens,
};
use pointsman_wire::body::Api;
use pointsman_wire::rewrite::ModelRewriter;
use pointsman_wire::usage::{Observed, Usage, UsageReader};
use std::sync::Arc;

/// Tokens that one prompt or answer may have for the engine's word to be taken.
const MAX_TOKENS: u64 = 1 << 30;

/// What a routed request is made of.
pub(crate) struct RoutedParts {
    pub(crate) pool: Arc<Pool>,
    pub(crate) active: Arc<Active>,
    pub(crate) fleet: Arc<Snapshot>,
    pub(crate) api: Api,
    pub(crate) request: Request,
    pub(crate) facts: Facts,
    /// Fleet place of each candidate.
    pub(crate) places: Vec<u32>,
    pub(crate) run: ProfileRun,
    /// Number of the primary profile.
    pub(crate) primary: usize,
    /// What other profiles chose.
    pub(crate) others: Vec<StagePick>,
    /// Port that its endpoints are reached at, in place of their own.
    pub(crate) port: Option<u16>,
    pub(crate) stream: bool,
    pub(crate) body: Arc<[Bytes]>,
    pub(crate) series: Arc<RequestSeries>,
    pub(crate) bodyless: bool,
    /// The body names another model than the one that came in.
    pub(crate) rewritten: bool,
}

/// A request on its way. Dropping it unfinished means that the client has left.
pub struct Routed {
    parts: RoutedParts,
    decision: Option<Arc<Decision>>,
    trace: Option<Trace>,
    /// Candidate it goes to, and those that could not serve it.
    candidate: u32,
    tried: Vec<u32>,
    endpoint: Arc<Endpoint>,
    /// What plugins put on the request.
    added: AddedHeaders,
    sent: Option<Sent>,
    response: Response,
    done: bool,
}

/// What is charged to the endpoint it was sent to.
struct Sent {
    held: Vec<Box<dyn Held>>,
    in_flight: InFlight,
    /// The same of the endpoints that other profiles chose, with what they do.
    beside: Vec<(Role, InFlight)>,
    tokens: u64,
    dispatched: bool,
}

#[derive(Default)]
struct Response {
    status: Option<u16>,
    usage: Option<UsageReader>,
    rewriter: Option<Box<ModelRewriter>>,
    streaming: bool,
    /// What the engine said it used, once the response was seen to its end.
    used: Option<Usage>,
    /// What plugins make of that.
    attributes: Vec<Attribute>,
    bytes: u64,
    head_at: Option<Nanos>,
    first_at: Option<Nanos>,
    last_at: Option<Nanos>,
}

impl std::fmt::Debug for Routed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Routed")
            .field("endpoint", &self.endpoint.name())
            .field("tried", &self.tried)
            .finish_non_exhaustive()
    }
}

impl Routed {
    pub(crate) fn new(parts: RoutedParts) -> Self {
        let candidate = parts.run.picked[0];
        let endpoint = Arc::clone(&parts.fleet.endpoints[parts.places[candidate as usize] as usize]);
        let mut routed = Self {
            decision: None,
            trace: None,
            candidate,
            tried: Vec::new(),
            endpoint,
            added: AddedHeaders::new(),
            sent: None,
            response: Response::default(),
            done: false,
            parts,
        };
        routed.send();
        let p = &routed.parts;
        p.pool.metrics.prefix_hit(&p.active.compiled.prefix, &p.facts, candidate as usize, p.request.prompt_tokens());
        if !p.request.items.is_empty() {
            let candidates = p.places.iter().map(|&place| &*p.fleet.endpoints[place as usize]);
            p.pool.metrics.encoder_hits(&p.active.compiled.encoders, &p.facts, candidates, &p.request.items);
        }
        if p.bodyless {
            p.pool.metrics.bodyless();
        } else {
            p.pool.metrics.started(&p.series, p.request.size_bytes);
        }
        routed
    }

    pub(crate) fn request(&self) -> &Request {
        &self.parts.request
    }

    pub(crate) fn on_record(&mut self, decision: Arc<Decision>, trace: Option<Trace>) {
        self.decision = Some(decision);
        self.trace = trace;
    }

    /// Charges the endpoint, and tells the plugins.
    fn send(&mut self) {
        let p = &self.parts;
        let hooks = &p.active.compiled.hooks;
        let chosen = Chosen {
            request: &p.request,
            facts: &p.facts,
            profile: &p.active.compiled.scheduler.profiles[p.primary].name,
            endpoint: &self.endpoint,
            candidate: self.candidate as usize,
            candidates: p.places.len(),
            others: &p.others,
        };
        self.added.clear();
        if p.port.is_some() {
            self.added.push((headers::DATA_PARALLEL, self.endpoint.host_port().to_owned()));
        }
        let mut held = Vec::new();
        let mut then = p.pool.clock.now();
        for hook in hooks {
            held.extend(hook.chosen(&chosen, &mut self.added));
            then = hook.timing.lap(&*p.pool.clock, then);
        }
        let uncached = |c: u32| p.facts.any::<UncachedTokens>().and_then(|u| u.get(c as usize)).map(|u| u.0);
        let tokens_of = |c: u32| uncached(c).unwrap_or_else(|| p.request.prompt_tokens());
        let tokens = tokens_of(self.candidate);
        self.endpoint.load.charge(1, tokens);
        let beside = p.others.iter().map(|stage| {
            let at = p.pool.metrics.at(&p.series, &p.active.compiled, &stage.endpoints[0]);
            (stage.role, InFlight::charge(at, tokens_of(stage.candidates[0])))
        });
        let beside = beside.collect();
        let at = p.pool.metrics.at(&self.parts.series, &p.active.compiled, &self.endpoint);
        // One attempt a decision: sending it elsewhere is a retry, and counted as such.
        if self.tried.is_empty() {
            at.attempt();
        }
        self.sent = Some(Sent { held, in_flight: InFlight::charge(at, tokens), beside, tokens, dispatched: false });
    }

    /// The record of its decision.
    #[must_use]
    pub fn decision(&self) -> &Arc<Decision> {
        self.decision.as_ref().expect("a request leaves the router with its record")
    }

    /// The endpoint to send to now.
    #[must_use]
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    /// Endpoints to offer to a proxy, best first: all that the picker returned.
    pub fn destinations(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        let p = &self.parts;
        p.run.picked.iter().map(|&c| &p.fleet.endpoints[p.places[c as usize] as usize])
    }

    /// Headers that plugins put on the request, over whatever the client sent under these names.
    #[must_use]
    pub fn added_headers(&self) -> &[(&'static str, String)] {
        &self.added
    }

    /// The port that its endpoints are reached at, where it is not their own: a data-parallel engine's front.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.parts.port
    }

    /// Weighted sum of each endpoint that the filters of the primary profile left, by `host:port`. None where the proxy is told another port, since it would
    /// know none of these.
    pub fn scores(&self) -> impl Iterator<Item = (&Arc<str>, f64)> {
        let p = &self.parts;
        let kept = if p.port.is_some() { &[][..] } else { &p.run.kept };
        let endpoint = |c: u32| p.fleet.endpoints[p.places[c as usize] as usize].meta.host_port_shared();
        kept.iter().zip(&p.run.totals).map(move |(c, total)| (endpoint(*c), *total))
    }

    /// Headers of the request, as they came.
    #[must_use]
    pub fn request_headers(&self) -> &[(Box<str>, Box<str>)] {
        &self.parts.request.headers
    }

    /// The body to forward, in pieces. Empty once a response has begun.
    #[must_use]
    pub fn body(&self) -> &Arc<[Bytes]> {
        &self.parts.body
    }

    /// Bytes of the body to forward.
    #[must_use]
    pub fn body_len(&self) -> u64 {
        length(&self.parts.body)
    }

    /// Whether that body is another one than came in.
    #[must_use]
    pub fn rewritten(&self) -> bool {
        self.parts.rewritten
    }

    /// The headers that carry the request's trace on. `None`: nobody traces, and the client's own travel on.
    #[must_use]
    pub fn trace_headers(&self) -> Option<TraceHeaders<'_>> {
        self.trace.as_ref().map(|trace| trace.headers(&self.parts.request.headers))
    }

    /// Whether the client asked for a stream.
    #[must_use]
    pub fn streaming(&self) -> bool {
        self.parts.stream
    }

    /// As what its body was read.
    #[must_use]
    pub fn api(&self) -> Api {
        self.parts.api
    }

    /// The endpoint could not serve it, for the reason `error`: its credit is withdrawn, and the request moves to the next best endpoint that is still ready
    /// and was not tried. `false` when there is none; the request then stays where it was, uncharged.
    pub fn retry(&mut self, error: &str) -> bool {
        self.withdraw();
        let failed = Arc::clone(self.endpoint.meta.host_port_shared());
        self.tried.push(self.candidate);
        let p = &self.parts;
        let ready = |c: u32| p.fleet.endpoints[p.places[c as usize] as usize].ready();
        let left: Vec<usize> =
            (0..p.run.kept.len()).filter(|&i| !self.tried.contains(&p.run.kept[i]) && ready(p.run.kept[i])).collect();
        let totals: Vec<f64> = left.iter().map(|&i| p.run.totals[i]).collect();
        let mut picked = Vec::new();
        if !totals.is_empty() {
            let picker = &p.active.compiled.scheduler.profiles[p.primary].picker;
            with_rng(|rng| picker.pick(&totals, rng, &mut picked));
        }
        let next = picked.first().and_then(|&i| left.get(i)).map(|&i| p.run.kept[i]);
        if let Some(decision) = &self.decision {
            decision.outcome.lock().retries.push(Retry { endpoint: failed, error: error.to_owned() });
        }
        let Some(next) = next else { return false };
        self.candidate = next;
        self.endpoint = Arc::clone(&p.fleet.endpoints[p.places[next as usize] as usize]);
        self.send();
        let p = &self.parts;
        p.pool.metrics.retried();
        let predicted = p
            .facts
            .any::<PrefixMatch>()
            .and_then(|m| m.get(next as usize))
            .map_or(0, |m| m.tokens(p.request.prompt_tokens()));
        if let Some(decision) = &self.decision {
            let mut outcome = decision.outcome.lock();
            outcome.endpoint = Some(Arc::clone(self.endpoint.meta.host_port_shared()));
            outcome.cached_tokens_predicted = predicted;
        }
        true
    }

    fn withdraw(&mut self) {
        if let Some(sent) = self.sent.take() {
            self.endpoint.load.release(1, sent.tokens);
            sent.held.into_iter().for_each(Held::withdrawn);
        }
    }

    /// The request is on its way to [`Routed::endpoint`]: time for what the decision need not wait for. A transport that never says so says it with the
    /// response's head.
    pub fn dispatched(&mut self) {
        if let Some(sent) = &mut self.sent
            && !std::mem::replace(&mut sent.dispatched, true)
        {
            sent.held.iter_mut().for_each(|h| h.sent());
            if let Some(trace) = &mut self.trace {
                trace.hand_over();
            }
        }
    }

    /// The response's head is here. A `status` of 0 is one that the proxy did not tell, and counts as a failure of the engine.
    pub fn response_head(&mut self, status: u16, content_type: Option<&str>, content_encoding: Option<&str>) {
        self.dispatched();
        // There is no other attempt after this: a long response need not hold its request.
        self.parts.body = Arc::default();
        self.parts.facts = Facts::default();
        let events = content_type.is_some_and(|t| t.to_ascii_lowercase().contains("text/event-stream"));
        self.response.status = Some(status);
        self.response.streaming = events || self.parts.stream;
        self.response.head_at = Some(self.parts.pool.clock.now());
        if self.parts.api.is_read() && status < 400 {
            self.response.usage = Some(UsageReader::new(self.parts.api, content_type, content_encoding));
        }
        self.response.rewriter = rename::rewriter(&self.parts.request, content_type, content_encoding);
        if let Some(decision) = &self.decision {
            decision.outcome.lock().status = (status > 0).then_some(status);
        }
    }

    /// Which endpoint the proxy says it used, and what plugins put into the response's head: calls `set` with name and value of each header.
    pub fn response_headers(&self, served: Served<'_>, set: &mut dyn FnMut(&str, &str)) {
        if let (Served::Endpoint(served), Some(decision)) = (served, &self.decision) {
            let mut outcome = decision.outcome.lock();
            if outcome.endpoint.as_deref() != Some(served) {
                outcome.endpoint = Some(served.into());
            }
        }
        let p = &self.parts;
        let answered = Answered {
            request: &p.request,
            endpoint: &self.endpoint,
            profile: &p.active.compiled.scheduler.profiles[p.primary].name,
            others: &p.others,
            served,
        };
        for hook in &p.active.compiled.response_hooks {
            let then = self.parts.pool.clock.now();
            hook.response_head(&answered, set);
            hook.timing.lap(&*self.parts.pool.clock, then);
        }
    }

    /// Whether the response's body comes to name the model that the client asked for: a transport then passes every piece through
    /// [`Routed::rewrite_response`] and tells no length, because it may change. Known once the response's head is.
    #[must_use]
    pub fn rewrites_response(&self) -> bool {
        self.response.rewriter.is_some()
    }

    /// Hands on what can be passed to the client once `chunk` is here, in pieces that are not empty; with `end` all that is left. Most are slices of
    /// what came in; a few bytes that may be the beginning of a name wait for the next chunk. Each chunk is also to be reported, as it came, to
    /// [`Routed::response_chunk`].
    pub fn rewrite_response(&mut self, chunk: Bytes, end: bool, out: &mut impl FnMut(Bytes)) {
        match &mut self.response.rewriter {
            Some(rewriter) => {
                rewriter.push(chunk, out);
                if end {
                    rewriter.finish(out);
                }
            }
            None if chunk.is_empty() => {}
            None => out(chunk),
        }
    }

    /// A piece of the response's body is on its way to the client.
    pub fn response_chunk(&mut self, chunk: &[u8]) {
        self.response_pieces(std::iter::once(chunk));
    }

    /// The same of a piece that lies in several slices.
    pub fn response_pieces<'a>(&mut self, slices: impl Iterator<Item = &'a [u8]> + Clone) {
        let bytes: usize = slices.clone().map(<[u8]>::len).sum();
        if bytes == 0 {
            return;
        }
        let now = self.parts.pool.clock.now();
        self.response.bytes += bytes as u64;
        match self.response.last_at {
            None => {
                self.response.first_at = Some(now);
                if let Some(sent) = &mut self.sent {
                    sent.held.iter_mut().for_each(|h| h.first_byte());
                    // Prompt tokens are computed once the first byte comes.
                    self.endpoint.load.release(0, std::mem::take(&mut sent.tokens));
                    sent.in_flight.prompt_done();
                    // Who computed the prompt for another engine is done.
                    sent.beside.retain(|(role, _)| *role != Role::Prefill);
                    sent.beside.iter_mut().for_each(|(_, in_flight)| in_flight.prompt_done());
                }
                if let Some(decision) = &self.decision {
                    decision.outcome.lock().ttft_ms = Some(millis(now, self.parts.request.received));
                }
            }
            Some(last) if self.response.streaming => self.parts.series.gap(now.since(last)),
            Some(_) => {}
        }
        self.response.last_at = Some(now);
        if let Some(usage) = &mut self.response.usage {
            slices.for_each(|slice| usage.push(slice));
        }
    }

    /// All of the response's body is here: what plugins make of what it used, for the proxy. The request goes on until it is finished.
    pub fn attributes(&mut self) -> &[Attribute] {
        self.observe();
        &self.response.attributes
    }

    /// Reads what was used, once.
    fn observe(&mut self) {
        let Some(reader) = self.response.usage.take() else { return };
        let Observed { usage, .. } = reader.finish();
        // What no engine can mean would stand in the sums for ever.
        let usage = usage
            .filter(|u| u.prompt <= MAX_TOKENS && u.completion <= MAX_TOKENS)
            .map(|u| Usage { cached: u.cached.map(|cached| cached.min(u.prompt)), ..u });
        self.response.used = usage;
        let Some(u) = usage else { return };
        let used = TokenUsage { prompt: u.prompt, completion: u.completion, total: u.total, cached: u.cached };
        let p = &self.parts;
        for hook in &p.active.compiled.usage_hooks {
            let then = p.pool.clock.now();
            self.response.attributes.extend(hook.usage(&used));
            hook.timing.lap(&*p.pool.clock, then);
        }
    }

    /// The request is over. `error` says what went wrong, if anything did.
    pub fn finish(mut self, how: Termination, error: Option<String>) {
        self.end(how, error);
    }

    fn end(&mut self, how: Termination, error: Option<String>) {
        if std::mem::replace(&mut self.done, true) {
            return;
        }
        self.dispatched();
        self.observe();
        if let Some(sent) = self.sent.take() {
            self.endpoint.load.release(1, sent.tokens);
            sent.held.into_iter().for_each(|h| h.ended(how));
        }
        let p = &self.parts;
        let now = p.pool.clock.now();
        let usage = self.response.used;
        let engine_failed = match self.response.status {
            Some(status) => status >= 400 || status == 0,
            None => how == Termination::Error,
        };
        let r = &self.response;
        if !p.bodyless {
            p.series.ended(&crate::metrics::Ended {
                how,
                engine_failed,
                usage,
                duration: now.since(p.request.received),
                ttft: r.first_at.map(|t| t.since(p.request.received)),
                response_bytes: r.bytes,
                streaming: r.streaming,
            });
        }
        if let Some(trace) = self.trace.take() {
            trace.ended(how, engine_failed, error.as_deref());
        }
        if let Some(r) = self.response.head_at {
            p.pool.metrics.response_processed(now.since(r));
        }
        if let Some(decision) = &self.decision {
            {
                let mut outcome = decision.outcome.lock();
                outcome.duration_ms = Some(millis(now, p.request.received));
                outcome.ended = Some(how.as_str());
                outcome.error = error;
                outcome.attributes = std::mem::take(&mut self.response.attributes);
                if let Some(usage) = usage {
                    outcome.prompt_tokens = Some(usage.prompt);
                    outcome.completion_tokens = Some(usage.completion);
                    outcome.cached_tokens = usage.cached;
                }
            }
            p.pool.tell_finished(decision);
        }
    }
}

impl Drop for Routed {
    fn drop(&mut self) {
        self.end(Termination::ClientDisconnect, None);
    }
}

fn millis(now: Nanos, since: Nanos) -> f64 {
    (now.since(since).as_nanos() as f64 / 1e3).round() / 1e3
}
