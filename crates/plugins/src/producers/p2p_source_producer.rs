//! `p2p-source-producer`: from which endpoint the one that computes the prompt may take cached KV blocks.
//!
//! An endpoint offers the tokens that it is believed to hold. Those that offer at least the most tokens but one block
//! are drawn among, each with the weight `1 / (1 + waiting)`; an endpoint whose queue is not known weighs as one behind
//! the longest known queue. The draw is the same again for the same request id, on every replica. Then
//! `x-kv-cache-source-host-port` names the drawn endpoint, if it is another one than computes the prompt, and offers at
//! least `minCachedTokenDelta` tokens more than that one holds. Source: plugin specification 9.5, disaggregation
//! specification 2.6 and their `Wart:` lines.

use crate::build::{Build, Instance};
use crate::hooks::disagg_headers_handler::{pick, set};
use crate::row::{Kind, Need, PREFIX_PRODUCER, Row, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_core::Nanos;
use pointsman_core::headers::KV_SOURCE;
use pointsman_scheduling::{
    AddedHeaders, Candidate, Chosen, ColumnId, DataKind, Facts, Held, Hooks, KvSource, PrefixMatch, Producer, Request,
    Role, Scope,
};
use std::sync::Arc;

/// Draws a source, and names it.
#[derive(Debug)]
pub struct P2pSourceProducer {
    matches: Option<ColumnId<PrefixMatch>>,
    min_delta: u64,
    prefill: Option<Arc<str>>,
}

fn tokens(m: &PrefixMatch) -> u64 {
    u64::from(m.matched) * u64::from(m.block_tokens)
}

/// Where the draw of a request falls, from 0 to below 1. FNV-1a alone hardly moves with the last character, so that ids
/// that count up would all fall alike.
fn place(id: &str) -> f64 {
    let fnv = id.bytes().fold(0x811c_9dc5_u32, |h, byte| (h ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let mut mixed = u64::from(fnv).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// The one at `place`, from 0 to 1, of weighted entries.
fn at<T: Copy>(entries: &[(T, f64)], place: f64) -> Option<T> {
    let sum: f64 = entries.iter().map(|(_, weight)| weight).sum();
    let mut reached = 0.0;
    let hit = entries.iter().find(|(_, weight)| {
        reached += weight;
        place * sum < reached
    });
    hit.or(entries.last()).map(|(entry, _)| *entry)
}

impl P2pSourceProducer {
    fn source(&self, request: &Request, all: Scope<'_>, matches: &[PrefixMatch]) -> Option<KvSource> {
        let most = matches.iter().map(tokens).max().filter(|&most| most > 0)?;
        let near = |m: &PrefixMatch| tokens(m) > 0 && tokens(m) + u64::from(m.block_tokens) >= most;
        let mut offers: Vec<(&Candidate<'_>, u64)> =
            all.iter().zip(matches).filter(|(_, m)| near(m)).map(|((_, c), m)| (c, tokens(m))).collect();
        offers.sort_by(|(a, _), (b, _)| a.endpoint.name().cmp(b.endpoint.name()));
        let behind = offers.iter().filter_map(|(c, _)| c.waiting()).fold(-1.0, f64::max) + 1.0;
        let weight = |c: &Candidate<'_>| 1.0 / (1.0 + c.waiting().unwrap_or(behind).max(0.0));
        let weighted: Vec<_> = offers.iter().map(|&(c, tokens)| ((c, tokens), weight(c))).collect();
        let (candidate, tokens) = at(&weighted, place(&request.id))?;
        Some(KvSource { endpoint: Arc::clone(candidate.endpoint), tokens })
    }
}

impl Producer for P2pSourceProducer {
    fn produce(&self, request: &Request, all: Scope<'_>, _: Nanos, facts: &mut Facts) {
        let source = self.matches.and_then(|id| facts.column(id)).and_then(|m| self.source(request, all, m));
        facts.kv_source = source;
    }
}

impl Hooks for P2pSourceProducer {
    fn chosen(&self, chosen: &Chosen<'_>, headers: &mut AddedHeaders) -> Option<Box<dyn Held>> {
        let source = chosen.facts.kv_source.as_ref()?;
        let (endpoint, candidate) = match pick(chosen.others, self.prefill.as_ref(), Role::Prefill) {
            Some(prefill) => (&prefill.endpoints[0], *prefill.candidates.first()? as usize),
            None => (chosen.endpoint, chosen.candidate),
        };
        let held = self.matches.and_then(|id| chosen.facts.column(id)).and_then(|m| m.get(candidate)).map_or(0, tokens);
        if source.endpoint.id != endpoint.id && source.tokens >= held.saturating_add(self.min_delta) {
            set(headers, KV_SOURCE, source.endpoint.host_port().to_owned());
        }
        None
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        PREFIX_PRODUCER,
        Param::new(
            "minCachedTokenDelta",
            ParamKind::POSITIVE,
            "Tokens that a source must hold more than the endpoint that computes the prompt.",
        )
        .default("1"),
        Param::new("prefillProfileName", ParamKind::String, "Profile that picks who computes the prompt.")
            .default("\"prefill\""),
    ],
    needs: &[Need::named(DataKind::PrefixMatch, "prefixMatchInfoProducerName")],
    formula: "drawn with weight 1 / (1 + waiting) among those with tokens + block >= most tokens",
    build: Some(build),
    ..Row::new(
        "p2p-source-producer",
        &[Kind::Producer, Kind::Hook],
        Stability::Alpha,
        "Names the endpoint that cached KV blocks may be taken from.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let producer = Arc::new(P2pSourceProducer {
        matches: b.column("prefixMatchInfoProducerName"),
        min_delta: b.params.u64("minCachedTokenDelta"),
        prefill: b.params.given("prefillProfileName").then(|| b.params.str("prefillProfileName").into()),
    });
    Instance { producer: Some(producer.clone()), hooks: Some(producer), ..Instance::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, Made, chosen, endpoint};
    use proptest::prelude::*;

    fn producer(matches: ColumnId<PrefixMatch>) -> P2pSourceProducer {
        P2pSourceProducer { matches: Some(matches), min_delta: 1, prefill: None }
    }

    /// Endpoints that hold that many blocks of 16 tokens.
    fn bench(made: Vec<(Made, u32)>) -> (Bench, P2pSourceProducer) {
        let matches = made.iter().map(|(_, matched)| PrefixMatch { matched: *matched, total: 100, block_tokens: 16 });
        let matches: Vec<PrefixMatch> = matches.collect();
        let (mut bench, id) = Bench::new(made.into_iter().map(|(made, _)| made)).columns(|c| c.column());
        bench.facts.fill(id, matches);
        (bench, producer(id))
    }

    fn source(bench: &Bench, producer: &P2pSourceProducer) -> Option<(String, u64)> {
        let matches = bench.facts.column(producer.matches?)?;
        let source = bench.with(|cycle, all| producer.source(cycle.request, all, matches))?;
        Some((source.endpoint.name().name.to_string(), source.tokens))
    }

    fn example() -> (Bench, P2pSourceProducer) {
        bench(vec![
            (endpoint("a").waiting(0.0), 96),
            (endpoint("b").waiting(3.0), 95),
            (endpoint("c").waiting(0.0), 80),
        ])
    }

    #[test]
    fn e11_those_within_a_block_of_the_most_are_drawn_among_by_queue() {
        let (mut bench, producer) = example();
        let mut drawn = [0; 3];
        for i in 0..5000 {
            bench.request.id = format!("req-{i}").into();
            let (name, tokens) = source(&bench, &producer).expect("a source");
            match &*name {
                "a" => assert_eq!(tokens, 1536),
                "b" => assert_eq!(tokens, 1520),
                other => panic!("{other} offers too little"),
            }
            drawn[usize::from(name == "b")] += 1;
        }
        // Weights 1 and 1/4, also for ids that count up.
        let share = f64::from(drawn[1]) / 5000.0;
        assert!((share - 0.2).abs() < 0.03, "{share}");
    }

    #[test]
    fn the_draw_of_an_id_is_the_same_whatever_the_order_of_endpoints() {
        let (mut one, a) = example();
        let (mut other, b) = bench(vec![
            (endpoint("c").waiting(0.0), 80),
            (endpoint("b").waiting(3.0), 95),
            (endpoint("a").waiting(0.0), 96),
        ]);
        for i in 0..100 {
            let id: Arc<str> = format!("r{i}").into();
            (one.request.id, other.request.id) = (Arc::clone(&id), id);
            assert_eq!(source(&one, &a), source(&other, &b));
        }
    }

    #[test]
    fn an_endpoint_with_an_unknown_queue_does_not_look_idle() {
        let (mut bench, producer) = bench(vec![(endpoint("a").waiting(3.0), 96), (endpoint("b"), 96)]);
        let of_b = (0..5000).filter(|i| {
            bench.request.id = format!("req-{i}").into();
            source(&bench, &producer).is_some_and(|(name, _)| name == "b")
        });
        // 1/5 against 1/4.
        let share = of_b.count() as f64 / 5000.0;
        assert!((share - 4.0 / 9.0).abs() < 0.03, "{share}");
    }

    #[test]
    fn the_source_is_told_when_it_holds_more_than_who_computes_the_prompt() {
        let (mut bench, mut producer) = example();
        let told = |bench: &Bench, producer: &P2pSourceProducer, to, others: &[(&str, Role, &[usize])]| {
            chosen(bench, producer, to, others).0.into_iter().map(|(name, value)| format!("{name}: {value}")).next()
        };
        assert_eq!(told(&bench, &producer, 2, &[]), None);
        bench.facts.kv_source = Some(KvSource { endpoint: Arc::clone(&bench.endpoints()[0]), tokens: 1536 });
        let a = Some("x-kv-cache-source-host-port: 10.0.0.1:8000".to_owned());
        assert_eq!(told(&bench, &producer, 2, &[]), a);
        assert_eq!(told(&bench, &producer, 0, &[]), None, "it would be its own source");
        assert_eq!(told(&bench, &producer, 0, &[("prefill", Role::Prefill, &[1])]), a);
        producer.min_delta = 17;
        assert_eq!(told(&bench, &producer, 1, &[]), None, "within the delta");
        producer.min_delta = 16;
        assert_eq!(told(&bench, &producer, 1, &[]), a);
    }

    #[test]
    fn nobody_holds_anything() {
        let (bench, producer) = bench(vec![(endpoint("a"), 0), (endpoint("b"), 0)]);
        assert_eq!(source(&bench, &producer), None);
    }

    proptest! {
        #[test]
        fn a_draw_falls_inside(id in ".{0,40}", weights in prop::collection::vec(1e-6..1.0f64, 1..20)) {
            prop_assert!((0.0..1.0).contains(&place(&id)));
            let entries: Vec<(usize, f64)> = weights.into_iter().enumerate().collect();
            prop_assert!(at(&entries, place(&id)).is_some_and(|i| i < entries.len()));
        }
    }
}
