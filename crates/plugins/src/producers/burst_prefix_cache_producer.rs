//! `burst-prefix-cache-producer`: requests that come at the same moment with the same prompt go to the same endpoint.
//!
//! No prefix index can help there: when the second of ten equal prompts is placed, the first has not been computed anywhere. So every request is held for up to
//! `windowDurationMs`, from the first of its batch on. When the window closes the batch is placed as a whole ([`assign`]), and each of its requests
//! reads as fully cached at the endpoint it is assigned to, and as not cached elsewhere. What that is worth is a scorer's to say.
//!
//! Only prompts that share something are assigned. A request without blocks is not held. One that finds its batch full goes on at once, without an assignment;
//! one whose client leaves has no part in it. Prompts are compared in the blocks that they are hashed in: those of the first prefix index of the configuration, else of
//! `blockSizeTokens`. Source: plugin specification 9.4.

mod assign;

use crate::build::{Blocks, Build, Instance};
use crate::learned::Learned;
use crate::row::{Kind, Need, Row, Stability};
use assign::{Assigning, Balance, Replica, assign};
use parking_lot::Mutex;
use pointsman_config::{Param, ParamKind};
use pointsman_core::{BlockHash, Nanos, chain, chain_seed};
use pointsman_scheduling::{Batcher, ColumnId, DataKind, Facts, Joined, PrefixMatch, Producer, Request, Scope};
use std::sync::Arc;
use std::time::Duration;

/// The batch that is open, beyond the life of one configuration.
#[derive(Debug, Default)]
struct Open(Mutex<Option<Arc<Batch>>>);

impl Learned for Open {}

/// Requests that wait for each other.
#[derive(Debug)]
struct Batch {
    until: Nanos,
    assigning: Assigning,
    state: Mutex<Waiting>,
}

#[derive(Debug)]
enum State {
    Waiting,
    /// For each of them, the endpoint it is assigned to.
    Placed(Vec<Option<u64>>),
}

#[derive(Debug)]
struct Waiting {
    /// The prompts; `None` of one that has left.
    prompts: Vec<Option<Box<[BlockHash]>>>,
    /// The candidates of the first.
    replicas: Vec<Replica>,
    state: State,
}

impl Batch {
    /// Where request `n` goes; the first to ask closes the batch.
    fn assigned(&self, n: usize) -> Option<u64> {
        let mut waiting = self.state.lock();
        if let State::Waiting = waiting.state {
            let prompts: Vec<&[BlockHash]> = waiting.prompts.iter().map(|p| p.as_deref().unwrap_or_default()).collect();
            let chosen = assign(&prompts, &waiting.replicas, self.assigning);
            let placed = chosen.into_iter().map(|r| r.map(|r| waiting.replicas[r].id)).collect();
            waiting.state = State::Placed(placed);
            waiting.prompts = Vec::new();
        }
        match &waiting.state {
            State::Placed(placed) => placed.get(n).copied().flatten(),
            State::Waiting => None,
        }
    }
}

/// Holds requests back.
struct BurstPrefixCacheProducer {
    column: Option<ColumnId<PrefixMatch>>,
    open: Arc<Open>,
    window: Duration,
    max_batch: usize,
    assigning: Assigning,
}

impl Batcher for BurstPrefixCacheProducer {
    fn join(&self, request: &Request, all: Scope<'_>, now: Nanos) -> Option<Joined> {
        let column = self.column?;
        let prompt = blocks(request);
        if prompt.is_empty() || all.is_empty() {
            return None;
        }
        let mut open = self.open.0.lock();
        let batch = match &*open {
            Some(batch) if now < batch.until => Arc::clone(batch),
            _ => {
                let replicas = all.iter().map(|(_, c)| Replica::of(c)).collect();
                let waiting = Waiting { prompts: Vec::new(), replicas, state: State::Waiting };
                let batch =
                    Batch { until: now.plus(self.window), assigning: self.assigning, state: Mutex::new(waiting) };
                Arc::clone(open.insert(Arc::new(batch)))
            }
        };
        let mut waiting = batch.state.lock();
        let n = waiting.prompts.len();
        if n >= self.max_batch || !matches!(waiting.state, State::Waiting) {
            return None;
        }
        let total = prompt.len() as u32;
        waiting.prompts.push(Some(prompt));
        drop(waiting);
        let until = batch.until;
        Some(Joined { until, then: Box::new(Ticket { batch, n, column, total }) })
    }
}

/// The blocks of all prompts of a request, one after the other. Each stands for all before it, those of earlier prompts too.
fn blocks(request: &Request) -> Box<[BlockHash]> {
    let seed = chain_seed(&request.target_model, &request.cache_salt);
    let mut all: Vec<BlockHash> = Vec::new();
    for prompt in &request.prompts {
        // Told from the same blocks in one prompt.
        let from = all.last().map_or(seed, |last| last.0 ^ seed);
        chain(from, &prompt.contents, &mut all);
    }
    all.into()
}

/// A request in a batch.
struct Ticket {
    batch: Arc<Batch>,
    n: usize,
    column: ColumnId<PrefixMatch>,
    total: u32,
}

impl Producer for Ticket {
    fn produce(&self, request: &Request, all: Scope<'_>, _: Nanos, facts: &mut Facts) {
        let Some(assigned) = self.batch.assigned(self.n) else { return };
        let (total, block_tokens) = (self.total, request.block_tokens);
        let there = |id: u64| if id == assigned { total } else { 0 };
        let matches = all.iter().map(|(_, c)| PrefixMatch { matched: there(c.endpoint.id), total, block_tokens });
        facts.fill(self.column, matches.collect());
    }
}

impl Drop for Ticket {
    /// One that leaves before its batch is placed has no part in it.
    fn drop(&mut self) {
        if let Some(prompt) = self.batch.state.lock().prompts.get_mut(self.n) {
            *prompt = None;
        }
    }
}

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new(
            "windowDurationMs",
            ParamKind::Integer { min: Some(1), max: Some(10_000) },
            "How long a batch stays open from its first request on, milliseconds.",
        )
        .default("100"),
        Param::new(
            "maxPerReplica",
            ParamKind::Integer { min: Some(-1), max: None },
            "Requests of one batch that an endpoint is given while others have fewer; -1: no limit.",
        )
        .default("-1"),
        Param::new("blockSizeTokens", ParamKind::POSITIVE, "Tokens in a block where no prefix index says.")
            .default("64"),
        Param::new(
            "maxPrefixTokensToMatch",
            ParamKind::COUNT,
            "Tokens of a prompt that are compared where no prefix index says; 0: 2048 blocks.",
        )
        .default("0"),
        Param::new(
            "minColocateBlocks",
            ParamKind::COUNT,
            "Leading blocks that different prompts must share to be put together; 0: equal prompts only.",
        )
        .default("0"),
        Param::new(
            "maxBatchSize",
            ParamKind::Integer { min: Some(-1), max: None },
            "Requests of one batch; what comes beyond goes on alone. -1: no limit.",
        )
        .default("1000"),
        Param::new("balanceBy", ParamKind::Enum(&["requests", "tokens"]), "What is spread evenly over the endpoints.")
            .default("\"requests\""),
    ],
    needs: &[Need { kind: DataKind::TokenizedPrompt, producer_param: None, required: true }],
    makes: &[DataKind::PrefixMatch],
    formula: "matched = total at the endpoint that the batch assigns, 0 elsewhere",
    build: Some(build),
    ..Row::new(
        "burst-prefix-cache-producer",
        &[Kind::Producer],
        Stability::Alpha,
        "Holds requests for a moment, and places those with the same prompt together.",
    )
};

/// Blocks that are compared where nothing else is said.
const DEFAULT_BLOCKS: usize = 2048;

fn build(b: &mut Build<'_>) -> Instance {
    for param in ["maxPerReplica", "maxBatchSize"] {
        if b.params.i64(param) == 0 {
            b.fault(param, &format!("`{param}` is 1 or more, or -1 for no limit"));
        }
    }
    let block_tokens = b.params.u64("blockSizeTokens").clamp(1, 1 << 20);
    let most = match b.params.u64("maxPrefixTokensToMatch") {
        0 => DEFAULT_BLOCKS,
        tokens if tokens < block_tokens => {
            let message = format!("`maxPrefixTokensToMatch` is less than a block of {block_tokens} tokens");
            b.fault("maxPrefixTokensToMatch", &message);
            0
        }
        tokens => usize::try_from(tokens / block_tokens).unwrap_or(usize::MAX),
    };
    let limit = |param: &str| usize::try_from(b.params.i64(param)).unwrap_or(usize::MAX);
    let balance = if b.params.str("balanceBy") == "tokens" { Balance::Blocks } else { Balance::Requests };
    let producer = BurstPrefixCacheProducer {
        column: b.own(),
        open: b.learned(Open::default),
        window: Duration::from_millis(b.params.u64("windowDurationMs")),
        max_batch: limit("maxBatchSize"),
        assigning: Assigning {
            max_per_replica: limit("maxPerReplica"),
            min_colocate_blocks: b.params.usize("minColocateBlocks"),
            balance,
        },
    };
    Instance {
        batcher: Some(Arc::new(producer)),
        blocks: Some(Blocks { tokens: block_tokens as u32, most }),
        ..Instance::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use pointsman_scheduling::PromptBlocks;

    const WINDOW: Duration = Duration::from_millis(100);

    fn producer(max_batch: usize, column: ColumnId<PrefixMatch>) -> BurstPrefixCacheProducer {
        let assigning = Assigning { max_per_replica: usize::MAX, min_colocate_blocks: 0, balance: Balance::Requests };
        BurstPrefixCacheProducer { column: Some(column), open: Arc::default(), window: WINDOW, max_batch, assigning }
    }

    fn bench() -> (Bench, ColumnId<PrefixMatch>) {
        Bench::new([endpoint("a"), endpoint("b")]).columns(|c| c.column::<PrefixMatch>())
    }

    fn prompt(content: u64) -> Request {
        let prompts = vec![PromptBlocks { tokens: 128, contents: vec![content, content] }];
        Request { prompts, target_model: "m".into(), ..Request::default() }
    }

    fn join(bench: &Bench, producer: &BurstPrefixCacheProducer, request: &Request, at: u64) -> Option<Joined> {
        bench.with(|_, all| producer.join(request, all, Nanos(at)))
    }

    /// Blocks that each endpoint is said to hold; `None`: nothing is said.
    fn said(bench: &mut Bench, joined: &Joined, column: ColumnId<PrefixMatch>) -> Option<Vec<u32>> {
        let mut facts = std::mem::take(&mut bench.facts);
        bench.with(|_, all| joined.then.produce(&prompt(1), all, Nanos(0), &mut facts));
        let said = facts.column(column).map(|c| c.iter().map(|m| m.matched).collect());
        let (with, again) = Bench::new([endpoint("a"), endpoint("b")]).columns(|c| c.column::<PrefixMatch>());
        assert_eq!(again, column);
        bench.facts = with.facts;
        said
    }

    #[test]
    fn equal_prompts_of_one_window_go_to_one_endpoint() {
        let (mut bench, column) = bench();
        let burst = producer(10, column);
        let joined: Vec<Joined> =
            [7, 8, 7, 8, 7].iter().map(|c| join(&bench, &burst, &prompt(*c), 5).expect("held")).collect();
        let all: Vec<Option<Vec<u32>>> = joined.iter().map(|j| said(&mut bench, j, column)).collect();
        assert_eq!((&all[0], &all[2], &all[4]), (&Some(vec![2, 0]), &Some(vec![2, 0]), &Some(vec![2, 0])));
        assert_eq!((&all[1], &all[3]), (&Some(vec![0, 2]), &Some(vec![0, 2])));
        assert!(joined.iter().all(|j| j.until == Nanos(5).plus(WINDOW)));
    }

    #[test]
    fn a_prompt_of_its_own_is_not_assigned_and_one_without_blocks_not_held() {
        let (mut bench, column) = bench();
        let burst = producer(10, column);
        let alone = join(&bench, &burst, &prompt(7), 5).expect("held");
        assert_eq!(said(&mut bench, &alone, column), None);
        assert!(join(&bench, &burst, &Request::default(), 5).is_none());
    }

    #[test]
    fn the_second_of_several_prompts_is_nothing_in_common_where_the_first_differs() {
        let (mut bench, column) = bench();
        let mut burst = producer(10, column);
        burst.assigning.min_colocate_blocks = 2;
        let several = |contents: [u64; 2]| {
            let prompts = contents.map(|c| PromptBlocks { tokens: 64, contents: vec![c] }).to_vec();
            Request { prompts, target_model: "m".into(), ..Request::default() }
        };
        let join = |contents| join(&bench, &burst, &several(contents), 5).expect("held");
        let [one, other, equal, again] = [join([1, 9]), join([2, 9]), join([3, 9]), join([3, 9])];
        assert_eq!([&one, &other].map(|j| said(&mut bench, j, column)), [None, None]);
        assert_eq!([&equal, &again].map(|j| said(&mut bench, j, column)), [Some(vec![2, 0]), Some(vec![2, 0])]);
    }

    #[test]
    fn whoever_has_left_does_not_count() {
        let (mut bench, column) = bench();
        let burst = producer(10, column);
        let (stays, leaves) = (join(&bench, &burst, &prompt(7), 5), join(&bench, &burst, &prompt(7), 5));
        drop(leaves);
        assert_eq!(said(&mut bench, &stays.expect("held"), column), None);
    }

    #[test]
    fn a_full_batch_takes_nobody_and_a_closed_one_is_followed_by_another() {
        let (mut bench, column) = bench();
        let burst = producer(2, column);
        let first = join(&bench, &burst, &prompt(7), 5).expect("held");
        let _second = join(&bench, &burst, &prompt(7), 5).expect("held");
        assert!(join(&bench, &burst, &prompt(7), 5).is_none());
        let late = 5 + WINDOW.as_nanos() as u64;
        let third = join(&bench, &burst, &prompt(7), late).expect("the next batch");
        assert_eq!(third.until, Nanos(late).plus(WINDOW));
        assert_eq!(said(&mut bench, &first, column), Some(vec![2, 0]));
        assert_eq!(said(&mut bench, &third, column), None);
    }
}
