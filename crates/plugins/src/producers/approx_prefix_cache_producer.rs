//! `approx-prefix-cache-producer`: what each endpoint is believed to hold, learned from where prompts were sent.
//!
//! A prompt is a chain of block hashes. When an endpoint is chosen it is credited with the chain; a later prompt matches an endpoint as deep as its chain
//! is credited there without a gap. Blocks are 64 tokens or more, one size for the whole pool: the largest that an engine reports (`autoTune`) or
//! `blockSizeTokens`; when it changes the index starts anew. An endpoint is credited with at most as many blocks as its engine can hold
//! (`autoTune`), or `lruCapacityPerServer`, least recently used first out. Source: plugin specification 9.2 and its `Wart:` lines.

use crate::build::{Build, Instance};
use crate::learned::{DUMPED, Learned};
use crate::row::{Kind, Need, Row, Stability};
use parking_lot::Mutex;
use pointsman_config::{Param, ParamKind};
use pointsman_core::{BlockHash, Nanos, chain, chain_seed};
use pointsman_fleet::{Endpoint, Snapshot};
use pointsman_prefix::{ApproxIndex, MatchScratch, Recorded};
use pointsman_scheduling::{
    AddedHeaders, Chosen, ColumnId, DataKind, Facts, Held, Hooks, PrefixMatch, Producer, Request, Role, Scope,
    StagePick, Termination,
};
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The smallest routing block, in tokens: a compromise of index size and match length that upstream fixed.
const MIN_BLOCK_TOKENS: u32 = 64;
const DEFAULT_CAPACITY: usize = 31_250;

/// How the index is sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizing {
    /// Follow what engines report.
    pub auto_tune: bool,
    /// Tokens in a block where engines report none.
    pub block_tokens: u32,
    /// Blocks an endpoint is credited with where its engine reports none.
    pub capacity: usize,
}

/// The index and the block size it is built with.
#[derive(Debug)]
pub struct PrefixState {
    /// The index.
    pub index: ApproxIndex,
    block_tokens: AtomicU32,
    sizing: Mutex<Sizing>,
}

impl PrefixState {
    fn new(sizing: Sizing) -> Self {
        Self {
            index: ApproxIndex::new(sizing.capacity),
            block_tokens: AtomicU32::new(sizing.block_tokens.max(MIN_BLOCK_TOKENS)),
            sizing: Mutex::new(sizing),
        }
    }

    /// Tokens in a block now.
    pub fn block_tokens(&self) -> u32 {
        self.block_tokens.load(Ordering::Relaxed)
    }
}

impl Learned for PrefixState {
    fn endpoint_left(&self, endpoint: &Endpoint) {
        self.index.remove(endpoint.slot);
    }

    fn dump(&self, fleet: &Snapshot) -> Option<serde_json::Value> {
        let holding: Vec<(String, usize)> = fleet
            .endpoints
            .iter()
            .map(|e| (e.name().to_string(), self.index.len_of(e.slot)))
            .filter(|(_, blocks)| *blocks > 0)
            .collect();
        let pods: Vec<serde_json::Value> = holding
            .iter()
            .take(DUMPED)
            .map(|(pod, blocks)| serde_json::json!({"pod": pod, "blocks": blocks}))
            .collect();
        Some(serde_json::json!({"pods": pods, "totalPods": holding.len(), "maxPods": DUMPED}))
    }

    fn refresh(&self, fleet: &Snapshot) {
        let sizing = *self.sizing.lock();
        let reported = || fleet.endpoints.iter().filter_map(|e| e.engine.cache_block_size()).max();
        let block = if sizing.auto_tune { reported().map(|b| b.min(1 << 20) as u32) } else { None };
        let block = block.unwrap_or(sizing.block_tokens).max(MIN_BLOCK_TOKENS);
        if self.block_tokens.swap(block, Ordering::Relaxed) != block {
            // Chains of another block size match nothing any more.
            self.index.clear();
        }
        for e in &fleet.endpoints {
            let reported = e.engine.cache_num_blocks().zip(e.engine.cache_block_size()).filter(|_| sizing.auto_tune);
            let capacity =
                reported.map(|(n, size)| (n.saturating_mul(size) / u64::from(block)).clamp(1, 1 << 30) as usize);
            self.index.set_capacity(e.slot, capacity.unwrap_or(sizing.capacity));
        }
    }
}

/// Matches prompts against the index, and credits endpoints.
#[derive(Debug)]
pub struct ApproxPrefixCacheProducer {
    /// Configuration type.
    pub type_name: &'static str,
    /// Instance name.
    pub name: Arc<str>,
    /// What was learned.
    pub state: Arc<PrefixState>,
    sizing: Sizing,
    column: Option<ColumnId<PrefixMatch>>,
    max_tokens: u64,
    max_blocks: u64,
}

impl ApproxPrefixCacheProducer {
    /// What the document says of blocks: whether engines are followed, and tokens in one otherwise.
    pub(crate) fn declared_blocks(&self) -> (bool, u32) {
        (self.sizing.auto_tune, self.sizing.block_tokens.max(MIN_BLOCK_TOKENS))
    }

    /// Blocks of a prompt that are hashed, at the present block size; `usize::MAX` means all.
    #[must_use]
    pub fn max_blocks(&self) -> usize {
        let cap = match (self.max_tokens, self.max_blocks) {
            (0, 0) => return usize::MAX,
            (0, blocks) => blocks,
            (tokens, _) => tokens / u64::from(self.state.block_tokens()),
        };
        usize::try_from(cap).unwrap_or(usize::MAX)
    }

    /// The column it fills.
    #[must_use]
    pub fn column(&self) -> Option<ColumnId<PrefixMatch>> {
        self.column
    }
}

/// The block hashes of every prompt, model and salt included.
fn chains(request: &Request) -> Vec<Vec<BlockHash>> {
    let seed = chain_seed(&request.target_model, &request.cache_salt);
    let chain_of = |contents: &[u64]| {
        let mut out = Vec::new();
        chain(seed, contents, &mut out);
        out
    };
    request.prompts.iter().map(|p| chain_of(&p.contents)).collect()
}

thread_local! {
    static SCRATCH: RefCell<MatchScratch> = RefCell::default();
}

impl Producer for ApproxPrefixCacheProducer {
    fn produce(&self, request: &Request, all: Scope<'_>, _: Nanos, facts: &mut Facts) {
        // A body that was hashed while the block size changed says nothing about this index.
        let (Some(column), true) = (self.column, request.block_tokens == self.state.block_tokens()) else { return };
        if facts.chains.is_empty() {
            facts.chains = chains(request).into();
        }
        let total: usize = facts.chains.iter().map(Vec::len).sum();
        let matches = SCRATCH.with_borrow_mut(|scratch| {
            scratch.reset();
            for chain in facts.chains.iter() {
                self.state.index.add_matches(chain, scratch);
            }
            all.iter()
                .map(|(_, c)| PrefixMatch {
                    matched: scratch.of(c.endpoint.slot),
                    total: total as u32,
                    block_tokens: request.block_tokens,
                })
                .collect()
        });
        facts.fill(column, matches);
    }
}

impl Hooks for ApproxPrefixCacheProducer {
    fn chosen(&self, chosen: &Chosen<'_>, _: &mut AddedHeaders) -> Option<Box<dyn Held>> {
        let matched = self.column.and_then(|c| chosen.facts.column(c)).is_some();
        if !matched || chosen.facts.chains.is_empty() {
            return None;
        }
        // Whoever computes the prompt for another engine comes to hold it too.
        let prefill = StagePick::of(chosen.others, Role::Prefill).map(|s| &s.endpoints[0]);
        let credit = |endpoint: &Arc<Endpoint>| Credit {
            state: Arc::clone(&self.state),
            endpoint: Arc::clone(endpoint),
            chains: Arc::clone(&chosen.facts.chains),
            recorded: Vec::new(),
        };
        let held = Box::new(credit(chosen.endpoint));
        match prefill {
            Some(prefill) => Some(Box::new((held, Box::new(credit(prefill))))),
            None => Some(held),
        }
    }
}

/// What an endpoint is credited with, to be taken back if another one serves the request. Credit is given once the request is on its way: writing
/// a long chain into the index takes longer than deciding where it goes.
struct Credit {
    state: Arc<PrefixState>,
    endpoint: Arc<Endpoint>,
    chains: Arc<[Vec<BlockHash>]>,
    recorded: Vec<Recorded>,
}

impl Held for Credit {
    fn sent(&mut self) {
        if self.recorded.is_empty() && !self.endpoint.left() {
            let slot = self.endpoint.slot;
            self.recorded = self.chains.iter().map(|c| self.state.index.record(slot, c)).collect();
            if self.endpoint.left() {
                // It left meanwhile, and its blocks may have been removed before these came: whoever gets the slot must not inherit them.
                self.state.index.remove(slot);
            }
        }
    }

    fn withdrawn(self: Box<Self>) {
        if !self.endpoint.left() {
            for (chain, recorded) in self.chains.iter().zip(self.recorded) {
                self.state.index.forget(self.endpoint.slot, chain, recorded);
            }
        }
    }

    fn ended(self: Box<Self>, _: Termination) {}
}

const PARAMS: &[Param] = &[
    Param::new("autoTune", ParamKind::Bool, "Take block size and capacity from what the engines report.")
        .default("true"),
    Param::new("blockSizeTokens", ParamKind::INTEGER, "Tokens in a block where engines report none; raised to 64.")
        .default("16"),
    Param::new(
        "maxPrefixTokensToMatch",
        ParamKind::COUNT,
        "Tokens of a prompt that are matched; 0: see `maxPrefixBlocksToMatch`.",
    )
    .default("131072"),
    Param::new(
        "maxPrefixBlocksToMatch",
        ParamKind::COUNT,
        "Blocks of a prompt that are matched when `maxPrefixTokensToMatch` is 0; 0: all.",
    )
    .default("2048")
    .deprecated("use `maxPrefixTokensToMatch`"),
    Param::new(
        "lruCapacityPerServer",
        ParamKind::INTEGER,
        "Blocks an endpoint is credited with where its engine reports none; 0 or less means 31250.",
    )
    .default("31250"),
    Param::new("blockSize", ParamKind::INTEGER, "Old name of `blockSizeTokens`.").deprecated("use `blockSizeTokens`"),
];

/// Its row.
pub const ROW: Row = Row {
    params: PARAMS,
    needs: &[Need { kind: DataKind::TokenizedPrompt, producer_param: None, required: true }],
    makes: &[DataKind::PrefixMatch],
    default_producer: true,
    formula: "matched = leading blocks of the prompt that were sent to the endpoint and are still in its LRU",
    build: Some(build),
    ..Row::new(
        "approx-prefix-cache-producer",
        &[Kind::Producer, Kind::Hook],
        Stability::Beta,
        "Learns what each endpoint holds from where prompts were sent.",
    )
};

/// The row of the same for peer clusters: what was sent to a cluster is believed to be held somewhere in it.
pub const MULTICLUSTER_ROW: Row = Row {
    params: PARAMS,
    needs: ROW.needs,
    makes: ROW.makes,
    formula: ROW.formula,
    build: Some(build),
    ..Row::new(
        "multicluster-approx-prefix-cache-producer",
        &[Kind::Producer, Kind::Hook],
        Stability::Alpha,
        "Learns what each peer cluster holds from where prompts were sent.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let mut block = b.params.i64("blockSizeTokens");
    let old = b.params.i64("blockSize");
    if b.params.given("blockSize") && old > 0 && block == 16 {
        block = old;
    }
    let auto_tune = b.params.bool("autoTune");
    if !auto_tune && block <= 0 {
        b.fault("blockSizeTokens", &format!("`blockSizeTokens` must be above 0 when `autoTune` is off, it is {block}"));
    }
    let capacity = b.params.i64("lruCapacityPerServer");
    if capacity < 0 {
        b.corrected("lruCapacityPerServer", "31250");
    }
    let sizing = Sizing {
        auto_tune,
        block_tokens: block.clamp(0, 1 << 20) as u32,
        capacity: if capacity > 0 { capacity as usize } else { DEFAULT_CAPACITY },
    };
    let state = b.learned(|| PrefixState::new(sizing));
    // Takes effect with the next look at the fleet: what engines report may outweigh it.
    let shared = Arc::clone(&state);
    b.on_activation(move || *shared.sizing.lock() = sizing);
    let producer = Arc::new(ApproxPrefixCacheProducer {
        type_name: b.type_name,
        name: Arc::clone(&b.name),
        state,
        sizing,
        column: b.own(),
        max_tokens: b.params.u64("maxPrefixTokensToMatch"),
        max_blocks: b.params.u64("maxPrefixBlocksToMatch"),
    });
    Instance {
        producer: Some(producer.clone()),
        hooks: Some(producer.clone()),
        prefix: Some(producer),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use pointsman_core::xxh64;
    use pointsman_scheduling::PromptBlocks;
    use proptest::prelude::*;

    fn producer(column: ColumnId<PrefixMatch>, capacity: usize) -> ApproxPrefixCacheProducer {
        let sizing = Sizing { auto_tune: true, block_tokens: 16, capacity };
        ApproxPrefixCacheProducer {
            type_name: ROW.type_name,
            name: "approx-prefix-cache-producer".into(),
            state: Arc::new(PrefixState::new(sizing)),
            sizing,
            column: Some(column),
            max_tokens: 131_072,
            max_blocks: 2048,
        }
    }

    fn blocks(of: &[u8]) -> Vec<PromptBlocks> {
        let contents: Vec<u64> = of.iter().map(|b| xxh64(&[*b])).collect();
        vec![PromptBlocks { tokens: 64 * contents.len() as u64, contents }]
    }

    /// Leading blocks each endpoint is believed to hold of a prompt.
    fn matched(bench: &mut Bench, producer: &ApproxPrefixCacheProducer, prompt: &[u8]) -> Vec<u32> {
        bench.request.prompts = blocks(prompt);
        let mut facts = std::mem::take(&mut bench.facts);
        facts.chains = Arc::default();
        bench.with(|cycle, scope| producer.produce(cycle.request, scope, cycle.now, &mut facts));
        let column = producer.column.and_then(|c| facts.column(c)).unwrap_or_default();
        let matched = column.iter().map(|m| m.matched).collect();
        bench.facts = facts;
        matched
    }

    /// Sends the prompt last matched to an endpoint.
    fn send(bench: &Bench, producer: &ApproxPrefixCacheProducer, candidate: usize) {
        let endpoint = &bench.endpoints()[candidate];
        let (request, facts) = (&bench.request, &bench.facts);
        let chosen = Chosen {
            request,
            facts,
            profile: "default",
            endpoint,
            candidate,
            candidates: bench.endpoints().len(),
            others: &[],
        };
        if let Some(mut held) = producer.chosen(&chosen, &mut AddedHeaders::new()) {
            held.sent();
            held.ended(Termination::Natural);
        }
    }

    #[test]
    fn an_endpoint_matches_as_deep_as_it_was_sent_the_chain() {
        let (mut bench, column) = Bench::new([endpoint("a"), endpoint("b")]).columns(|c| c.column());
        let producer = producer(column, 100);
        assert_eq!(matched(&mut bench, &producer, b"abc"), [0, 0]);
        send(&bench, &producer, 0);
        assert_eq!(matched(&mut bench, &producer, b"abcd"), [3, 0]);
        assert_eq!(matched(&mut bench, &producer, b"abX"), [2, 0]);
        assert_eq!(matched(&mut bench, &producer, b"Xbc"), [0, 0]);
        bench.request.target_model = "other".into();
        assert_eq!(matched(&mut bench, &producer, b"abc"), [0, 0]);
    }

    #[test]
    fn blocks_are_never_smaller_than_64_tokens_and_the_cap_follows_their_size() {
        let (_, column) = Bench::new([]).columns(|c| c.column());
        let mut p = producer(column, 100);
        assert_eq!((p.state.block_tokens(), p.max_blocks()), (64, 2048));
        (p.max_tokens, p.max_blocks) = (0, 5);
        assert_eq!(p.max_blocks(), 5);
        (p.max_tokens, p.max_blocks) = (0, 0);
        assert_eq!(p.max_blocks(), usize::MAX);
        p.max_tokens = 63;
        assert_eq!(p.max_blocks(), 0);
    }

    proptest! {
        #[test]
        fn nobody_matches_more_than_was_sent_there_nor_more_than_its_capacity(
            sent in proptest::collection::vec((0_usize..3, proptest::collection::vec(0_u8..3, 1..8)), 1..20),
            asked in proptest::collection::vec(0_u8..3, 1..8),
            capacity in 1_usize..12,
        ) {
            let (mut bench, column) = Bench::new(["a", "b", "c"].map(endpoint)).columns(|c| c.column());
            let producer = producer(column, capacity);
            for (to, prompt) in &sent {
                matched(&mut bench, &producer, prompt);
                send(&bench, &producer, *to);
            }
            for (at, found) in matched(&mut bench, &producer, &asked).into_iter().enumerate() {
                let shared = |prompt: &Vec<u8>| prompt.iter().zip(&asked).take_while(|(a, b)| a == b).count();
                let most = sent.iter().filter(|(to, _)| *to == at).map(|(_, prompt)| shared(prompt)).max();
                prop_assert!(found as usize <= most.unwrap_or(0).min(capacity));
            }
        }
    }
}
