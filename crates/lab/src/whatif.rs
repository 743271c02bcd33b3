//! Recorded decisions, decided again by another configuration.
//!
//! The production router is shown what was known at the time: each endpoint's gauges, requests in flight and adapters, and, by crediting its prefix index with
//! as many blocks of the prompt, what each endpoint was believed to hold. Nothing that follows from another choice is played out: each
//! decision is taken for itself. [`race`](crate::race) replays a recording with consequences.

use std::sync::Arc;

use pointsman_core::{Clock as _, EndpointName, ManualClock, Nanos};
use pointsman_fleet::{EndpointMeta, LoraInfo, Scraped};
use pointsman_plugins::DefaultProfile;
use pointsman_router::{Pool, RequestHead, Routed};
use pointsman_scheduling::Termination;
use pointsman_wire::body::{Api, ParsedBody, Prompt};

use crate::policy::{Unusable, router};
use crate::recording::Recorded;
use crate::{BEGIN, mix};

/// One decision, taken again.
#[derive(Clone, Debug, PartialEq)]
pub struct Again {
    /// `host:port`; `None` when the new configuration refuses.
    pub picked: Option<String>,
    /// Whether the endpoint that was chosen is as good under the new configuration.
    pub equal: bool,
    /// Tokens that the newly picked endpoint was believed to hold, less those of the old.
    pub cached_gain: i64,
    /// Requests waiting at the newly picked endpoint, less those at the old; 0 where unknown.
    pub waiting_gain: f64,
}

/// A router with the new configuration.
pub struct WhatIf {
    pool: Arc<Pool>,
    clock: Arc<ManualClock>,
    serial: u64,
}

impl std::fmt::Debug for WhatIf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WhatIf").field("decided", &self.serial).finish_non_exhaustive()
    }
}

impl WhatIf {
    /// With that configuration.
    ///
    /// # Errors
    /// When it has faults.
    pub fn new(document: &[u8], default: DefaultProfile) -> Result<Self, Unusable> {
        let (pool, clock) = router(document, default, 1)?;
        Ok(Self { pool, clock, serial: 0 })
    }

    /// Decides a request again.
    pub fn decide(&mut self, recorded: &Recorded) -> Again {
        self.serial += 1;
        self.clock.reach(Nanos(BEGIN.0.saturating_add(recorded.timestamp.saturating_mul(1_000_000))));
        let there: Vec<_> = recorded.candidates.iter().filter(|seen| !seen.out).collect();
        for seen in &there {
            if self.pool.fleet.load().at(&seen.address).is_none()
                && let Some((host, port)) = seen.address.rsplit_once(':')
                && let Ok(port) = port.parse()
            {
                let name = EndpointName::new("recorded", seen.address.clone());
                let host = host.trim_start_matches('[').trim_end_matches(']');
                self.pool.fleet.upsert(EndpointMeta::new(name, host, port));
            }
        }
        self.show(recorded);
        self.pool.housekeeping();
        let blocks = self.pool.active().compiled.blocks();
        // What each was believed to hold is what it is credited with.
        for seen in there.iter().filter(|seen| seen.prefix_match_tokens >= u64::from(blocks.tokens)) {
            let tokens = seen.prefix_match_tokens / u64::from(blocks.tokens) * u64::from(blocks.tokens);
            if let Some(mut routed) = self.route(recorded, tokens, vec![seen.address.clone()]) {
                routed.dispatched();
                routed.finish(Termination::Natural, None);
            }
        }
        self.show(recorded);
        let subset = there.iter().map(|seen| seen.address.clone()).collect();
        let Some(routed) = self.route(recorded, recorded.input_length, subset) else {
            return Again { picked: None, equal: false, cached_gain: 0, waiting_gain: 0.0 };
        };
        let picked = routed.endpoint().host_port().to_owned();
        let total = |address: &str| routed.scores().find(|(name, _)| ***name == *address).map(|(_, total)| total);
        let equal = total(&recorded.picked).is_some_and(|old| total(&picked) == Some(old));
        let of = |address: &str| there.iter().find(|seen| seen.address == address);
        let (new, old) = (of(&picked), of(&recorded.picked));
        let again = match (new, old) {
            (Some(new), Some(old)) => Again {
                equal,
                cached_gain: new.prefix_match_tokens as i64 - old.prefix_match_tokens as i64,
                waiting_gain: new.waiting.zip(old.waiting).map_or(0.0, |(new, old)| new - old),
                picked: Some(picked.clone()),
            },
            _ => Again { equal, cached_gain: 0, waiting_gain: 0.0, picked: Some(picked.clone()) },
        };
        drop(routed);
        again
    }

    /// Puts the fleet into the state that was recorded.
    fn show(&self, recorded: &Recorded) {
        let (fleet, now) = (self.pool.fleet.snapshot(), self.clock.now());
        for seen in &recorded.candidates {
            let Some(endpoint) = fleet.at(&seen.address) else { continue };
            let model = || Some(Arc::<str>::from(recorded.model.as_str()));
            let lora = match seen.lora.as_deref() {
                Some("active") => Some(LoraInfo::new(1, model(), None)),
                Some("waiting") => Some(LoraInfo::new(1, None, model())),
                Some("room") => Some(LoraInfo::new(1, None, None)),
                Some("full") => Some(LoraInfo::new(1, Some("another adapter".into()), None)),
                _ => None,
            };
            let scraped = Scraped {
                waiting: seen.waiting,
                running: seen.running,
                kv_usage: seen.kv_cache_usage,
                lora,
                ..Scraped::default()
            };
            endpoint.engine.apply(now, &scraped);
            let (has, wanted) = (endpoint.load.requests(), seen.in_flight);
            endpoint.load.charge(wanted.saturating_sub(has), 0);
            endpoint.load.release(has.saturating_sub(wanted), 0);
        }
    }

    /// Routes the first `tokens` of the prompt. Its content is its own: what was recorded of matches is all that counts.
    fn route(&self, recorded: &Recorded, tokens: u64, subset: Vec<String>) -> Option<Routed> {
        let blocks = self.pool.active().compiled.blocks();
        let own = mix(self.serial ^ 0x7768_6174);
        let count = tokens.div_ceil(u64::from(blocks.tokens)).min(blocks.most as u64);
        let contents = (0..count).map(|at| mix(own ^ at)).collect();
        let body = ParsedBody {
            model: Some(if recorded.model.is_empty() { "unknown".into() } else { recorded.model.clone() }),
            prompts: vec![Prompt { tokens, contents }],
            ..ParsedBody::unread(Api::Completions)
        };
        let mut reading = self.pool.begin(RequestHead {
            transport: "lab",
            method: "POST".into(),
            path: "/v1/completions".into(),
            headers: Arc::from([]),
            received: self.clock.now(),
            subset: Some(subset),
        });
        reading.understood(body, tokens * 4);
        reading.decide().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::Seen;

    fn recorded() -> Recorded {
        let seen = |address: &str, waiting, prefix| Seen {
            address: address.into(),
            waiting: Some(waiting),
            running: Some(1.0),
            kv_cache_usage: Some(0.2),
            prefix_match_tokens: prefix,
            ..Seen::default()
        };
        Recorded {
            input_length: 640,
            candidates: vec![seen("10.0.0.1:80", 9.0, 640), seen("10.0.0.2:80", 0.0, 0), seen("10.0.0.3:80", 4.0, 0)],
            picked: "10.0.0.2:80".into(),
            ..Recorded::default()
        }
    }

    fn document(scorer: &str) -> String {
        format!(
            "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: {scorer}\nschedulingProfiles:\n- name: default\n  \
             plugins:\n  - {{pluginRef: {scorer}, weight: 1}}\n"
        )
    }

    #[test]
    fn another_configuration_would_have_chosen_otherwise() {
        let decide = |scorer: &str| {
            WhatIf::new(document(scorer).as_bytes(), DefaultProfile::Serve).expect("fine").decide(&recorded())
        };
        let by_queue = decide("queue-scorer");
        assert_eq!((by_queue.picked.as_deref(), by_queue.equal, by_queue.cached_gain), (Some("10.0.0.2:80"), true, 0));
        let by_prefix = decide("prefix-cache-scorer");
        assert_eq!((by_prefix.picked.as_deref(), by_prefix.equal), (Some("10.0.0.1:80"), false));
        assert_eq!((by_prefix.cached_gain, by_prefix.waiting_gain), (640, 9.0));
    }

    #[test]
    fn requests_in_flight_count_as_they_did() {
        let mut busy = recorded();
        busy.candidates[1].in_flight = 30;
        let mut whatif =
            WhatIf::new(document("active-request-scorer").as_bytes(), DefaultProfile::Serve).expect("fine");
        for _ in 0..5 {
            assert_ne!(whatif.decide(&busy).picked.as_deref(), Some("10.0.0.2:80"));
        }
    }
}
