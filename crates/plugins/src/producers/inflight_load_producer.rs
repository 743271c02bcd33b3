//! `inflight-load-producer`: requests and tokens in flight to each endpoint.
//!
//! A request counts 1 and, in tokens, what its endpoint has to compute of the prompt: blocks that do not match, plus what lies beyond the hashed blocks, at
//! most the prompt. With `addEstimatedOutputTokens` the expected output is added: `round(prompt * outputRatio)`, capped by the client's limit and by
//! `maxEstimatedOutputTokens`. Prompt tokens are released at the first byte of the response unless output is counted; the rest at its end, however it
//! ends. Requests are counted by the router itself, on the endpoint. Source: plugin specification 9.6.

use crate::build::{Build, Instance};
use crate::by_slot::BySlot;
use crate::learned::{DUMPED, Learned};
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Nanos;
use pointsman_fleet::{Endpoint, Load, Snapshot};
use pointsman_scheduling::{
    AddedHeaders, Chosen, ColumnId, DataKind, Facts, Held, Hooks, InFlightTokens, PrefixMatch, Producer, Request, Role,
    Scope, Termination, UncachedTokens,
};
use std::sync::Arc;

/// Tokens in flight to each endpoint.
#[derive(Debug, Default)]
pub struct TokensInFlight(BySlot<Load>);

impl Learned for TokensInFlight {
    fn endpoint_left(&self, endpoint: &Endpoint) {
        self.0.remove(endpoint);
    }

    fn dump(&self, fleet: &Snapshot) -> Option<serde_json::Value> {
        let known = self.0.view();
        let tokens = |e: &Arc<Endpoint>| Some((e.name().to_string(), e.load.requests(), known.get(e)?.tokens()));
        let all: Vec<(String, u64, u64)> = fleet.endpoints.iter().filter_map(tokens).collect();
        let shown: Vec<serde_json::Value> = all
            .iter()
            .take(DUMPED)
            .map(|(name, requests, tokens)| serde_json::json!({"endpoint": name, "requests": requests, "tokens": tokens}))
            .collect();
        let truncated = all.len() > DUMPED;
        Some(serde_json::json!({
            "endpoints": shown, "totalEndpoints": all.len(), "maxEndpoints": DUMPED, "truncated": truncated,
        }))
    }
}

/// Counts tokens in flight.
#[derive(Debug)]
pub struct InflightLoadProducer {
    output_ratio: Option<f64>,
    max_output: Option<u64>,
    prefix: Option<ColumnId<PrefixMatch>>,
    uncached: Option<ColumnId<UncachedTokens>>,
    in_flight: Option<ColumnId<InFlightTokens>>,
    tokens: Arc<TokensInFlight>,
}

/// Prompt tokens an endpoint has to compute.
fn uncached(input: u64, m: Option<&PrefixMatch>) -> u64 {
    match m {
        Some(m) if m.block_tokens > 0 => {
            let block = u64::from(m.block_tokens);
            let missing = u64::from(m.total.saturating_sub(m.matched)) * block;
            // The padded last block must not make a prompt longer than it is.
            (missing + input.saturating_sub(u64::from(m.total) * block)).min(input)
        }
        _ => input,
    }
}

impl InflightLoadProducer {
    fn charged(&self, input: u64, prefix: Option<&PrefixMatch>, limit: Option<u64>) -> u64 {
        uncached(input, prefix).saturating_add(self.output(input, limit))
    }

    /// Charges an endpoint with what it has to do. Nothing where that is no token, unless it is not the primary one.
    fn hold(&self, chosen: &Chosen<'_>, endpoint: &Arc<Endpoint>, candidate: usize, role: Role) -> Option<HeldTokens> {
        let input = chosen.facts.tokens.unwrap_or(0);
        let prefix = self.prefix.and_then(|p| chosen.facts.column(p)).and_then(|p| p.get(candidate));
        let tokens = self.charged(input, prefix, chosen.request.max_output_tokens);
        if tokens == 0 && role == Role::Any {
            return None;
        }
        let load = self.tokens.0.of(endpoint);
        load.charge(1, tokens);
        let until_end = self.output_ratio.is_some();
        Some(HeldTokens { load, tokens, until_end, prefill: role == Role::Prefill, counted: None })
    }

    fn output(&self, input: u64, limit: Option<u64>) -> u64 {
        let Some(ratio) = self.output_ratio else { return 0 };
        let estimate = (input as f64 * ratio).round() as u64;
        estimate.min(limit.unwrap_or(u64::MAX)).min(self.max_output.unwrap_or(u64::MAX))
    }
}

impl Producer for InflightLoadProducer {
    fn produce(&self, _: &Request, all: Scope<'_>, _: Nanos, facts: &mut Facts) {
        let input = facts.tokens.unwrap_or(0);
        if let Some(id) = self.uncached {
            let prefix = self.prefix.and_then(|p| facts.column(p));
            let tokens = |c| UncachedTokens(uncached(input, prefix.and_then(|p: &[PrefixMatch]| p.get(c))));
            let column = (0..all.len()).map(tokens).collect();
            facts.fill(id, column);
        }
        if let Some(id) = self.in_flight {
            let known = self.tokens.0.view();
            let tokens = |e: &Endpoint| known.get(e).map_or(0, |load| load.tokens());
            facts.fill(id, all.iter().map(|(_, c)| InFlightTokens(tokens(c.endpoint))).collect());
        }
    }
}

impl Hooks for InflightLoadProducer {
    fn chosen(&self, chosen: &Chosen<'_>, _: &mut AddedHeaders) -> Option<Box<dyn Held>> {
        let held = self.hold(chosen, chosen.endpoint, chosen.candidate, Role::Any);
        let others = chosen.others.iter().filter_map(|stage| {
            let held = self.hold(chosen, &stage.endpoints[0], stage.candidates[0] as usize, stage.role);
            held.map(|held| (held, &stage.endpoints[0]))
        });
        // Requests of the primary profile are counted by the router itself, those of the others here.
        others.fold(held.map(|h| Box::new(h) as Box<dyn Held>), |all, (mut other, endpoint)| {
            endpoint.load.charge(1, 0);
            other.counted = Some(Arc::clone(&endpoint.load));
            Some(match all {
                Some(all) => Box::new((all, Box::new(other))),
                None => Box::new(other),
            })
        })
    }
}

struct HeldTokens {
    load: Arc<Load>,
    tokens: u64,
    until_end: bool,
    /// The engine computes the prompt for another one, and is done at the first byte.
    prefill: bool,
    /// The load of an endpoint beside the primary one, on which the request counts too.
    counted: Option<Arc<Load>>,
}

impl HeldTokens {
    fn release(&mut self) {
        self.load.release(0, std::mem::take(&mut self.tokens));
    }

    fn uncount(&mut self) {
        if let Some(counted) = self.counted.take() {
            counted.release(1, 0);
        }
    }
}

impl Held for HeldTokens {
    fn first_byte(&mut self) {
        if !self.until_end || self.prefill {
            self.release();
        }
        if self.prefill {
            self.uncount();
        }
    }
    fn withdrawn(self: Box<Self>) {}
    fn ended(self: Box<Self>, _: Termination) {}
}

impl Drop for HeldTokens {
    fn drop(&mut self) {
        self.release();
        self.uncount();
        self.load.release(1, 0);
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "addEstimatedOutputTokens",
            ParamKind::Bool,
            "Count expected output tokens too, until the end of the response.",
        )
        .default("false"),
        Param::new("outputRatio", ParamKind::NON_NEGATIVE, "Expected output tokens per prompt token.").default("1.5"),
        Param::new("maxEstimatedOutputTokens", ParamKind::COUNT, "Upper bound of the expected output tokens."),
        PREFIX_PRODUCER,
        Param::new(
            "syncCrossReplicaState",
            ParamKind::Bool,
            "Share the counts with other replicas, where a syncer is configured.",
        )
        .default("true"),
    ],
    needs: &[
        Need::optional(DataKind::PrefixMatch, "prefixMatchInfoProducerName"),
        Need { kind: DataKind::TokenizedPrompt, producer_param: None, required: true },
    ],
    makes: &[DataKind::InFlightLoad, DataKind::UncachedTokens],
    default_producer: true,
    formula: "tokens = min(input, (total - matched) * block + max(0, input - total * block)) + expected output",
    build: Some(build),
    ..Row::new(
        "inflight-load-producer",
        &[Kind::Producer, Kind::Hook, Kind::Extractor],
        Stability::Beta,
        "Counts requests and tokens in flight to each endpoint.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let producer = Arc::new(InflightLoadProducer {
        output_ratio: b.params.bool("addEstimatedOutputTokens").then(|| b.params.f64("outputRatio")),
        max_output: b
            .params
            .get("maxEstimatedOutputTokens")
            .is_some()
            .then(|| b.params.u64("maxEstimatedOutputTokens")),
        prefix: b.column("prefixMatchInfoProducerName"),
        uncached: b.own(),
        in_flight: b.own(),
        tokens: b.learned(TokensInFlight::default),
    });
    Instance { producer: Some(producer.clone()), hooks: Some(producer), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn m(matched: u32, total: u32) -> PrefixMatch {
        PrefixMatch { matched, total, block_tokens: 64 }
    }

    fn producer(ratio: f64, max_output: Option<u64>) -> InflightLoadProducer {
        InflightLoadProducer {
            output_ratio: Some(ratio),
            max_output,
            prefix: None,
            uncached: None,
            in_flight: None,
            tokens: Arc::default(),
        }
    }

    #[test]
    fn matched_blocks_need_no_computing() {
        assert_eq!(uncached(1000, Some(&m(10, 16))), 384);
        assert_eq!(uncached(1000, None), 1000);
        assert_eq!(uncached(3000, Some(&m(16, 16))), 3000 - 1024);
    }

    #[test]
    fn the_padded_last_block_does_not_make_a_prompt_longer_than_it_is() {
        assert_eq!(uncached(1000, Some(&m(0, 16))), 1000);
    }

    #[test]
    fn expected_output_is_capped_by_the_client_and_the_configuration() {
        let p = |max_output| producer(1.5, max_output);
        assert_eq!(p(None).output(1000, Some(200)), 200);
        assert_eq!(p(None).output(1000, None), 1500);
        assert_eq!(p(Some(100)).output(1000, Some(200)), 100);
        assert_eq!(p(None).output(0, None), 0);
    }

    #[test]
    fn prompt_and_expected_output_are_added_without_overflow() {
        assert_eq!(producer(1.5, None).charged(1000, Some(&m(10, 16)), Some(200)), 584);
        assert_eq!(producer(1e300, None).charged(1000, None, None), u64::MAX);
        assert_eq!(producer(1.5, None).charged(u64::MAX, None, Some(u64::MAX)), u64::MAX);
    }

    #[test]
    fn what_is_charged_is_released_once_however_the_request_ends() {
        let load = Arc::new(Load::default());
        let held = |until_end| {
            load.charge(1, 384);
            Box::new(HeldTokens { load: Arc::clone(&load), tokens: 384, until_end, prefill: false, counted: None })
        };
        let mut h = held(false);
        h.first_byte();
        assert_eq!((load.requests(), load.tokens()), (1, 0));
        h.ended(Termination::Natural);
        assert_eq!((load.requests(), load.tokens()), (0, 0));
        let mut h = held(true);
        h.first_byte();
        assert_eq!(load.tokens(), 384);
        h.withdrawn();
        drop(held(false));
        assert_eq!((load.requests(), load.tokens()), (0, 0));
    }
}
