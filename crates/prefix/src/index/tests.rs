use std::collections::{BTreeMap, BTreeSet, HashMap};

use pointsman_core::{chain, chain_seed};
use proptest::prelude::*;

use super::*;
use crate::MatchScratch;

fn prompt(contents: &[u64]) -> Vec<BlockHash> {
    let mut out = Vec::new();
    chain(chain_seed("m", ""), contents, &mut out);
    out
}

impl ApproxIndex {
    /// Panics where tables and lists do not say the same, or a set is not prefix-closed in the order of use.
    fn check(&self) {
        let mut in_tables = BTreeSet::new();
        for shard in &self.shards {
            in_tables.extend(shard.read().check());
        }
        let mut in_lists = BTreeSet::new();
        for (slot, column) in self.columns.read().iter().enumerate() {
            let lru = &column.lock().lru;
            let mut more_recent = HashMap::from([(NONE, ())]);
            for node in lru.iter() {
                let key = self.key(node.hash);
                let at = self.shard(key).read().node(key, slot as u32).expect("what is listed is in the table");
                assert!(more_recent.contains_key(&node.parent), "the block before is held, and more recent");
                more_recent.insert(at, ());
                in_lists.insert((key, slot as u32, at));
            }
            assert_eq!(more_recent.len() - 1, lru.len());
        }
        assert_eq!(in_tables, in_lists);
    }

    fn matched(&self, chain: &[BlockHash], slots: u32) -> Vec<u32> {
        let mut scratch = MatchScratch::default();
        self.match_chain(chain, &mut scratch);
        (0..slots).map(|slot| scratch.of(Slot(slot))).collect()
    }

    /// Blocks of a slot, from the most recent on.
    fn order(&self, slot: Slot) -> Vec<BlockHash> {
        let mut order = Vec::new();
        assert!(self.for_each(usize::MAX, |s, hash, _| order.extend((s == slot).then_some(hash))));
        order
    }
}

#[test]
fn an_endpoint_scores_only_what_it_holds_without_a_gap_from_the_first_block() {
    let index = ApproxIndex::new(3);
    let a = prompt(&[1, 2, 3]);
    index.record(Slot(0), &a);
    index.record(Slot(1), &a[..1]);
    assert_eq!(index.matched(&a, 3), [3, 1, 0]);
    assert_eq!(index.matched(&prompt(&[1, 2, 9, 9]), 3), [2, 1, 0]);
    assert_eq!(index.matched(&prompt(&[2, 3]), 3), [0, 0, 0]);
    assert_eq!(index.matched(&[], 3), [0, 0, 0]);
}

#[test]
fn eviction_takes_tails_first_and_never_orphans_a_chain() {
    let index = ApproxIndex::new(5);
    let (a, b) = (prompt(&[1, 2, 3]), prompt(&[4, 5, 6]));
    index.record(Slot(0), &a);
    index.record(Slot(0), &b);
    assert_eq!(index.order(Slot(0)), [b[0], b[1], b[2], a[0], a[1]]);
    assert_eq!((index.matched(&a, 1), index.matched(&b, 1)), (vec![2], vec![3]));
    index.record(Slot(0), &a);
    assert_eq!(index.order(Slot(0)), [a[0], a[1], a[2], b[0], b[1]]);
}

#[test]
fn of_a_chain_longer_than_the_capacity_only_the_head_that_fits_is_held() {
    let index = ApproxIndex::new(3);
    let long = prompt(&[1, 2, 3, 4, 5, 6]);
    let recorded = index.record(Slot(0), &long);
    assert_eq!((recorded.new_from, recorded.len), (0, 3));
    assert_eq!((index.matched(&long, 1), index.len(), index.blocks()), (vec![3], 3, 3));
    index.remove(Slot(0));
    assert_eq!((index.matched(&long, 1), index.len(), index.blocks()), (vec![0], 0, 0));
}

#[test]
fn a_record_tells_what_was_there_before() {
    let index = ApproxIndex::new(100);
    assert_eq!(index.record(Slot(0), &prompt(&[1, 2])).new_from, 0);
    assert_eq!(index.record(Slot(0), &prompt(&[1, 2, 3, 4])).new_from, 2);
    assert_eq!(index.record(Slot(0), &prompt(&[1, 2, 3])).new_from, 3);
    assert_eq!(index.record(Slot(1), &prompt(&[1, 2, 3])).new_from, 0);
    assert_eq!(index.record(Slot(0), &[]), Recorded::default());
}

#[test]
fn a_forgotten_record_leaves_what_was_there_before_and_what_others_used_since() {
    let index = ApproxIndex::new(100);
    let long = prompt(&[1, 2, 3, 4, 5]);
    index.record(Slot(0), &long[..2]);
    let recorded = index.record(Slot(0), &long);
    index.forget(Slot(0), &long, recorded);
    assert_eq!(index.matched(&long, 1), [2], "what was there before stays");

    let recorded = index.record(Slot(0), &long);
    index.record(Slot(0), &prompt(&[1, 2, 3, 9]));
    index.forget(Slot(0), &long, recorded);
    assert_eq!(index.matched(&long, 1), [3], "another prompt was built on the third block");

    let recorded = index.record(Slot(0), &long);
    index.record(Slot(0), &long);
    index.forget(Slot(0), &long, recorded);
    assert_eq!(index.matched(&long, 1), [5], "the same prompt was sent again");
    index.forget(Slot(0), &long, recorded);
    index.forget(Slot(7), &long, recorded);
    index.check();
}

#[test]
fn a_smaller_capacity_holds_at_once() {
    let index = ApproxIndex::new(100);
    let (a, b) = (prompt(&[1, 2, 3]), prompt(&[4, 5, 6]));
    index.record(Slot(0), &a);
    index.record(Slot(0), &b);
    index.set_capacity(Slot(0), 4);
    assert_eq!((index.len_of(Slot(0)), index.matched(&a, 1), index.matched(&b, 1)), (4, vec![1], vec![3]));
    index.set_capacity(Slot(0), 0);
    assert_eq!((index.len(), index.record(Slot(0), &a)), (0, Recorded::default()));
    index.set_capacity(Slot(1), 2);
    assert_eq!(index.record(Slot(1), &a).len, 2);
    index.remove(Slot(1));
    assert_eq!(index.record(Slot(1), &a).len, 3, "a successor in the slot starts with the default");
}

#[test]
fn clearing_keeps_capacities() {
    let index = ApproxIndex::new(100);
    let a = prompt(&[1, 2, 3]);
    index.set_capacity(Slot(0), 2);
    index.record(Slot(0), &a);
    index.record(Slot(1), &a);
    index.clear();
    assert!(index.is_empty());
    assert_eq!((index.matched(&a, 2), index.blocks()), (vec![0, 0], 0));
    assert_eq!(index.record(Slot(0), &a).len, 2);
}

#[test]
fn matches_of_several_prompts_add_up() {
    let index = ApproxIndex::new(100);
    let (a, b) = (prompt(&[1, 2, 3]), prompt(&[4, 5, 6]));
    index.record(Slot(0), &a);
    index.record(Slot(1), &b[..2]);
    index.record(Slot(0), &b[..1]);
    let mut scratch = MatchScratch::default();
    index.match_chain(&a, &mut scratch);
    scratch.reset();
    for chain in [&a, &b, &a] {
        index.add_matches(chain, &mut scratch);
    }
    assert_eq!((scratch.of(Slot(0)), scratch.of(Slot(1)), scratch.of(Slot(99))), (7, 2, 0));
    index.match_chain(&b, &mut scratch);
    assert_eq!((scratch.of(Slot(0)), scratch.of(Slot(1))), (1, 2));
}

#[test]
fn entries_are_visited_after_the_block_before_them_up_to_a_limit() {
    let index = ApproxIndex::new(100);
    let a = prompt(&[1, 2, 3]);
    index.record(Slot(2), &a);
    let mut seen = Vec::new();
    assert!(index.for_each(3, |slot, hash, parent| seen.push((slot.0, hash, parent))));
    assert_eq!(seen, [(2, a[0], None), (2, a[1], Some(a[0])), (2, a[2], Some(a[1]))]);
    seen.clear();
    assert!(!index.for_each(2, |slot, hash, parent| seen.push((slot.0, hash, parent))));
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_slot_that_cannot_be_named_is_not_recorded() {
    let index = ApproxIndex::new(100);
    assert_eq!(index.record(Slot(Holder::SLOTS), &prompt(&[1])), Recorded::default());
    assert!(index.is_empty());
}

/// Searching must find every depth when a thousand endpoints stop at different blocks.
#[test]
fn each_of_many_endpoints_gets_its_own_depth() {
    let index = ApproxIndex::new(100);
    let long = prompt(&(0..63).collect::<Vec<_>>());
    let depth = |slot: u32| (slot as usize * 37) % 64;
    for slot in 0..1_000 {
        index.record(Slot(slot), &long[..depth(slot)]);
    }
    let want: Vec<u32> = (0..1_000).map(|slot| depth(slot) as u32).collect();
    assert_eq!(index.matched(&long, 1_000), want);
    index.check();
}

/// The specification, written down without any thought of speed.
#[derive(Default)]
struct Naive {
    slots: BTreeMap<u32, NaiveSlot>,
}

struct NaiveSlot {
    capacity: usize,
    stamp: u32,
    /// Most recent first, with the record that used it last.
    lru: Vec<(BlockHash, u32)>,
}

const DEFAULT: usize = 7;

impl Naive {
    fn slot(&mut self, slot: u32) -> &mut NaiveSlot {
        self.slots.entry(slot).or_insert_with(|| NaiveSlot { capacity: DEFAULT, stamp: 0, lru: Vec::new() })
    }

    fn record(&mut self, slot: u32, chain: &[BlockHash]) -> (usize, usize, u32) {
        let s = self.slot(slot);
        let chain = &chain[..chain.len().min(s.capacity)];
        if chain.is_empty() {
            return (0, 0, 0);
        }
        let held = chain.iter().take_while(|h| s.lru.iter().any(|(have, _)| have == *h)).count();
        s.stamp += 1;
        for hash in chain.iter().rev() {
            s.lru.retain(|(have, _)| have != hash);
            s.lru.insert(0, (*hash, s.stamp));
        }
        s.lru.truncate(s.capacity);
        (held, chain.len(), s.stamp)
    }

    fn forget(&mut self, slot: u32, chain: &[BlockHash], (from, len, stamp): (usize, usize, u32)) {
        let s = self.slot(slot);
        for hash in chain[from..len].iter().rev() {
            match s.lru.iter().position(|(have, _)| have == hash) {
                Some(at) if s.lru[at].1 == stamp => drop(s.lru.remove(at)),
                Some(_) => break,
                None => {}
            }
        }
    }

    fn matched(&self, chain: &[BlockHash], slots: u32) -> Vec<u32> {
        let holds = |slot: u32, h: &BlockHash| self.slots.get(&slot).is_some_and(|s| s.lru.iter().any(|(x, _)| x == h));
        (0..slots).map(|slot| chain.iter().take_while(|h| holds(slot, h)).count() as u32).collect()
    }
}

#[derive(Clone, Debug)]
enum Op {
    Record(u32, Vec<u64>),
    Forget(usize),
    Capacity(u32, usize),
    Remove(u32),
    Clear,
}

const SLOTS: u32 = 5;

fn contents() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(0..2u64, 0..10)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => (0..SLOTS, contents()).prop_map(|(slot, contents)| Op::Record(slot, contents)),
        4 => (0..4usize).prop_map(Op::Forget),
        1 => (0..SLOTS, 0..20usize).prop_map(|(slot, blocks)| Op::Capacity(slot, blocks)),
        1 => (0..SLOTS).prop_map(Op::Remove),
        1 => Just(Op::Clear),
    ];
    prop::collection::vec(op, 1..60)
}

proptest! {
    #[test]
    fn the_index_agrees_with_a_naive_model(ops in ops(), probes in prop::collection::vec(contents(), 4)) {
        let (index, mut naive) = (ApproxIndex::new(DEFAULT), Naive::default());
        let mut records = Vec::new();
        for op in ops {
            match op {
                Op::Record(slot, contents) => {
                    let chain = prompt(&contents);
                    let (got, want) = (index.record(Slot(slot), &chain), naive.record(slot, &chain));
                    prop_assert_eq!((got.new_from, got.len), (want.0, want.1));
                    records.push((slot, chain, got, want));
                }
                Op::Forget(back) => {
                    if let Some((slot, chain, got, want)) = records.iter().rev().nth(back) {
                        index.forget(Slot(*slot), chain, *got);
                        naive.forget(*slot, chain, *want);
                    }
                }
                Op::Capacity(slot, blocks) => {
                    index.set_capacity(Slot(slot), blocks);
                    let s = naive.slot(slot);
                    s.capacity = blocks;
                    s.lru.truncate(blocks);
                }
                Op::Remove(slot) => {
                    index.remove(Slot(slot));
                    let s = naive.slot(slot);
                    (s.capacity, s.lru) = (DEFAULT, Vec::new());
                }
                Op::Clear => {
                    index.clear();
                    naive.slots.values_mut().for_each(|s| s.lru.clear());
                }
            }
            index.check();
            for slot in 0..SLOTS {
                let want: Vec<_> = naive.slot(slot).lru.iter().map(|(hash, _)| *hash).collect();
                prop_assert_eq!(index.order(Slot(slot)), want);
            }
            for contents in &probes {
                let chain = prompt(contents);
                prop_assert_eq!(index.matched(&chain, SLOTS), naive.matched(&chain, SLOTS));
            }
        }
    }

    /// Hashes that collide, as someone could make them: the same hash after different blocks, or twice in one chain.
    #[test]
    fn chains_that_lie_about_their_ancestors_break_nothing(
        steps in prop::collection::vec((0..4u32, prop::collection::vec(0..6u64, 0..8), any::<bool>()), 1..60)
    ) {
        let index = ApproxIndex::new(5);
        for (slot, hashes, forget) in steps {
            let chain: Vec<BlockHash> = hashes.into_iter().map(BlockHash).collect();
            let recorded = index.record(Slot(slot), &chain);
            prop_assert!(recorded.new_from <= recorded.len && recorded.len <= chain.len());
            prop_assert!(index.matched(&chain, 4).iter().all(|blocks| *blocks as usize <= chain.len()));
            if forget {
                index.forget(Slot(slot), &chain, recorded);
            }
            prop_assert!(index.len_of(Slot(slot)) <= 5);
            index.check();
        }
    }
}

#[test]
fn readers_and_writers_of_all_kinds_leave_a_consistent_index() {
    let index = ApproxIndex::new(200);
    let prompts: Vec<Vec<BlockHash>> = (0..64u64)
        .map(|p| prompt(&(0..40).map(|i| if i < 10 { i } else { p * 100 + i }).collect::<Vec<_>>()))
        .collect();
    std::thread::scope(|scope| {
        for writer in 0..3usize {
            let (index, prompts) = (&index, &prompts);
            scope.spawn(move || {
                for round in 0..1_500usize {
                    let slot = Slot(((round + writer) % 6) as u32);
                    let chain = &prompts[(round * 7 + writer * 13) % prompts.len()];
                    let recorded = index.record(slot, &chain[..1 + round % chain.len()]);
                    match round % 50 {
                        0 => index.remove(slot),
                        1 => index.set_capacity(slot, 50 + round % 100),
                        2..10 => index.forget(slot, chain, recorded),
                        _ => {}
                    }
                }
            });
        }
        let (index, prompts) = (&index, &prompts);
        scope.spawn(move || {
            let mut scratch = MatchScratch::default();
            for round in 0..4_000usize {
                let chain = &prompts[round % prompts.len()];
                index.match_chain(chain, &mut scratch);
                assert!((0..6).all(|slot| scratch.of(Slot(slot)) as usize <= chain.len()));
            }
        });
    });
    index.check();
    for chain in &prompts {
        let want: Vec<u32> = (0..6)
            .map(|slot| {
                let held: BTreeSet<_> = index.order(Slot(slot)).into_iter().collect();
                chain.iter().take_while(|hash| held.contains(hash)).count() as u32
            })
            .collect();
        assert_eq!(index.matched(chain, 6), want);
    }
}
