//! The production router as a policy: the same code that serves real traffic, with time and gauges injected.
//!
//! A request enters behind the reading of its body (there is none): its prompt comes as block contents. From there on everything is as in `serve` and `epp`:
//! producers, filters, scorers, picker, the prefix index, loads in flight, the end of a response with its usage. Two things are left out: nothing is rendered, and
//! no request is held back to be placed with others.

use std::fmt::Write as _;
use std::sync::Arc;

use hashbrown::HashMap;
use pointsman_core::headers::PREFILLER;
use pointsman_core::{EndpointName, ManualClock, Nanos};
use pointsman_fleet::{EndpointMeta, LoraInfo, Scraped};
use pointsman_plugins::DefaultProfile;
use pointsman_router::{Pool, RequestHead, Routed};
use pointsman_scheduling::{Served, Termination};
use pointsman_sim::Engine;
use pointsman_wire::body::{Api, ParsedBody, Prompt};

use super::router::{Unusable, router};
use super::{Ask, Over, Policy, View};
use crate::fleet::FleetOptions;

/// Model that requests without an adapter ask for.
const MODEL: &str = "lab";

/// Port of all engines; they differ in their address.
const PORT: u16 = 8_000;

/// Label that tells engines' roles apart.
const ROLE: &str = "llm-d.ai/role";

type Headers = Vec<(Box<str>, Box<str>)>;

/// One router over one fleet.
pub struct Production {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
    places: HashMap<Arc<str>, usize>,
    routed: HashMap<u32, Routed>,
    /// Headers that responses set for a session and its next requests bring back.
    sessions: HashMap<u64, Headers>,
    kept_house: Nanos,
    /// Sizes of an engine became known since.
    resized: bool,
    /// Who computes the prompt of the request placed last, where that is another.
    prefill: Option<usize>,
    metas: Vec<EndpointMeta>,
}

impl std::fmt::Debug for Production {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Production").field("in_flight", &self.routed.len()).finish_non_exhaustive()
    }
}

impl Production {
    /// A [`router`] in front of such a fleet.
    ///
    /// # Errors
    /// When the document has faults.
    pub fn new(document: &[u8], default: DefaultProfile, fleet: &FleetOptions, seed: u64) -> Result<Self, Unusable> {
        let (pool, clock) = router(document, default, seed)?;
        let metas: Vec<EndpointMeta> = (0..fleet.pods.max(1))
            .map(|pod| {
                let host = format!("10.{}.{}.{}", pod >> 16 & 255, pod >> 8 & 255, pod & 255);
                let mut meta = EndpointMeta::new(EndpointName::new("lab", format!("pod-{pod}")), host, PORT);
                meta.labels = fleet.disaggregation.role(pod).map(|role| (ROLE, role)).into_iter().collect();
                meta
            })
            .collect();
        pool.fleet.replace_all(metas.clone());
        let places = metas.iter().enumerate().map(|(pod, meta)| (Arc::clone(meta.host_port_shared()), pod)).collect();
        let (routed, sessions) = (HashMap::new(), HashMap::new());
        Ok(Self { pool, clock, places, routed, sessions, kept_house: Nanos(0), resized: false, prefill: None, metas })
    }

    fn reach(&mut self, now: Nanos) {
        self.clock.reach(now);
        if now.since(self.kept_house).as_millis() >= 1_000 {
            self.kept_house = now;
            self.pool.housekeeping();
        }
    }

    fn head(&self, ask: &Ask<'_>, now: Nanos) -> RequestHead {
        let mut headers: Headers = vec![("x-request-id".into(), ask.id.to_string().into())];
        if let Some(session) = ask.request.session {
            headers.push(("x-session-id".into(), session.to_string().into()));
            headers.extend(self.sessions.get(&session).into_iter().flatten().cloned());
        }
        RequestHead {
            transport: "lab",
            method: "POST".into(),
            path: "/v1/completions".into(),
            headers: headers.into(),
            received: now,
            subset: None,
        }
    }
}

impl Policy for Production {
    fn gone(&mut self, pod: usize) {
        if let Some(meta) = self.metas.get(pod) {
            self.pool.fleet.remove(&meta.name);
        }
    }

    fn back(&mut self, pod: usize) {
        if let Some(meta) = self.metas.get(pod) {
            self.pool.fleet.upsert(meta.clone());
        }
    }

    fn pick(&mut self, ask: &Ask<'_>, view: &View<'_>) -> Option<usize> {
        self.reach(view.now);
        if std::mem::take(&mut self.resized) {
            self.pool.housekeeping();
        }
        let blocks = self.pool.active().compiled.blocks();
        let prompt = &ask.request.prompt;
        let contents = prompt.blocks(blocks.tokens, blocks.most, true);
        let body = ParsedBody {
            model: Some(ask.request.lora.as_deref().unwrap_or(MODEL).to_owned()),
            stream: true,
            max_output_tokens: Some(ask.request.output),
            prompts: vec![Prompt { tokens: prompt.tokens, contents }],
            ..ParsedBody::unread(Api::Completions)
        };
        let mut reading = self.pool.begin(self.head(ask, view.now));
        // Four bytes a token, as everywhere.
        reading.understood(body, prompt.tokens * 4);
        let mut routed = reading.decide().ok()?;
        routed.dispatched();
        let pod = self.places.get(routed.endpoint().meta.host_port_shared()).copied();
        let prefiller = routed.added_headers().iter().find(|(name, _)| *name == PREFILLER);
        self.prefill = prefiller.and_then(|(_, host_port)| self.places.get(host_port.as_str())).copied();
        if let Some(session) = ask.request.session {
            let served = routed.endpoint().host_port().to_owned();
            let mut set = Vec::new();
            routed
                .response_headers(Served::Endpoint(&served), &mut |name, value| set.push((name.into(), value.into())));
            if !set.is_empty() {
                self.sessions.insert(session, set);
            }
        }
        self.routed.insert(ask.id, routed);
        pod
    }

    fn prefill(&self) -> Option<usize> {
        self.prefill
    }

    fn scraped(&mut self, now: Nanos, pod: usize, engine: &Engine) {
        self.reach(now);
        let fleet = self.pool.fleet.snapshot();
        let Some(endpoint) = self.metas.get(pod).and_then(|meta| fleet.at(meta.host_port())) else { return };
        self.resized |= endpoint.engine.scraped_at().0 == 0;
        let config = engine.config();
        let lora = (config.max_loras > 0).then(|| {
            let (running, waiting) = engine.adapters();
            LoraInfo::new(config.max_loras as u32, running, waiting)
        });
        let scraped = Scraped {
            waiting: Some(engine.waiting() as f64),
            running: Some(engine.running() as f64),
            kv_usage: Some(engine.kv_usage()),
            lora,
            block_size: Some(u64::from(config.block_size)),
            num_blocks: Some(u64::from(config.blocks)),
            attributes: Vec::new(),
        };
        endpoint.engine.apply(now, &scraped);
    }

    fn first_token(&mut self, now: Nanos, id: u32) {
        self.reach(now);
        if let Some(routed) = self.routed.get_mut(&id) {
            routed.response_head(200, Some("text/event-stream"), None);
            routed.response_chunk(b"data: {\"choices\":[{\"text\":\"a\"}]}\n\n");
        }
    }

    fn ended(&mut self, now: Nanos, id: u32, over: &Over) {
        self.reach(now);
        let Some(mut routed) = self.routed.remove(&id) else { return };
        if !over.complete {
            routed.response_head(429, None, None);
            routed.finish(Termination::Error, Some("the engine's queue is full".into()));
            return;
        }
        let Over { prompt, cached, output, .. } = *over;
        let mut usage = String::new();
        let _ = write!(
            usage,
            "data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{prompt},\"completion_tokens\":{output},\"total_tokens\":{},\
             \"prompt_tokens_details\":{{\"cached_tokens\":{cached}}}}}}}\n\ndata: [DONE]\n\n",
            prompt + output
        );
        routed.response_chunk(usage.as_bytes());
        routed.finish(Termination::Natural, None);
    }
}
