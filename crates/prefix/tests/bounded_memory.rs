//! However much traffic passes, the index stays within its stated bound, and what a removed endpoint held is gone at
//! once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use pointsman_core::{BlockHash, Slot, chain, chain_seed};
use pointsman_prefix::{ApproxIndex, BYTES_PER_ENTRY, MatchScratch};

const CAPACITY: usize = 31_250;
const ENDPOINTS: u32 = 8;
/// The fixed part: index, and columns of a few endpoints.
const FIXED: usize = 64 * 1_024 + 8 * 1_024 * ENDPOINTS as usize;

/// Held by every test: one of them looks at the memory of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A prompt of 16 blocks, unlike every other one.
fn prompt(number: u64, out: &mut Vec<BlockHash>) {
    let contents: Vec<u64> = (0..16).map(|i| number << 8 | i).collect();
    out.clear();
    chain(chain_seed("m", ""), &contents, out);
}

fn assert_bound(index: &ApproxIndex) {
    let (bytes, entries) = (index.memory_bytes(), index.len());
    assert!(bytes <= entries * BYTES_PER_ENTRY + FIXED, "{bytes} bytes for {entries} entries");
}

/// Distinct prompts over 8 endpoints, then 10 endpoints replaced one after another (BR-50).
fn distinct_prompts_then_replacements(prompts: u64) {
    let index = ApproxIndex::new(CAPACITY);
    let mut hashes = Vec::new();
    for number in 0..prompts {
        prompt(number, &mut hashes);
        index.record(Slot((number % u64::from(ENDPOINTS)) as u32), &hashes);
        if number % 5_000 == 0 {
            assert_bound(&index);
        }
    }
    let full = CAPACITY * ENDPOINTS as usize;
    assert_eq!(index.len(), full, "every endpoint is at its bound, exactly");
    assert_bound(&index);
    assert!(index.memory_bytes() <= full * BYTES_PER_ENTRY + FIXED);

    let mut scratch = MatchScratch::default();
    for replaced in 0..10u64 {
        let slot = Slot((replaced % u64::from(ENDPOINTS)) as u32);
        let mine = |number: u64| number % u64::from(ENDPOINTS) == u64::from(slot.0);
        index.remove(slot);
        assert_eq!((index.len_of(slot), index.len()), (0, full - CAPACITY));
        for number in (prompts - 1_000..prompts).filter(|n| mine(*n)) {
            prompt(number, &mut hashes);
            index.match_chain(&hashes, &mut scratch);
            assert_eq!(scratch.of(slot), 0, "a successor in the slot inherits nothing");
        }
        assert_bound(&index);
        for number in 0..CAPACITY as u64 / 16 + 1 {
            prompt(prompts + (replaced << 32) + number, &mut hashes);
            index.record(slot, &hashes);
        }
        assert_eq!(index.len(), full);
        assert_bound(&index);
    }
    for slot in 0..ENDPOINTS {
        index.remove(Slot(slot));
    }
    assert_eq!((index.len(), index.blocks()), (0, 0));
    assert!(index.memory_bytes() <= FIXED, "{}", index.memory_bytes());
}

#[test]
fn br_50_the_index_stays_bounded_and_removed_endpoints_are_gone_at_once() {
    let _alone = alone();
    distinct_prompts_then_replacements(40_000);
}

#[test]
#[ignore = "the full count: some seconds in release"]
fn br_50_two_million_prompts() {
    let _alone = alone();
    let began = Instant::now();
    let before = resident_bytes();
    distinct_prompts_then_replacements(2_000_000);
    let grown = resident_bytes().saturating_sub(before);
    let bound = CAPACITY * ENDPOINTS as usize * BYTES_PER_ENTRY + FIXED;
    // Allocators keep some pages of what was freed.
    assert!(grown <= bound, "{grown} bytes resident, bound {bound}, after {:?}", began.elapsed());
}

/// Endpoints that share their blocks join one by one, and leave one by one.
#[test]
fn the_bound_holds_however_many_endpoints_share_a_block() {
    let _alone = alone();
    let mut hashes = Vec::new();
    for endpoints in [2, 3, 5, 9, 17, 33, 65] {
        let index = ApproxIndex::new(4_000);
        let fixed = 64 * 1_024 + 8 * 1_024 * endpoints as usize;
        let check = || {
            let (bytes, entries) = (index.memory_bytes(), index.len());
            assert!(bytes <= entries * BYTES_PER_ENTRY + fixed, "{endpoints} endpoints: {bytes} for {entries}");
        };
        check();
        for slot in 0..endpoints {
            for number in 0..250 {
                prompt(number, &mut hashes);
                index.record(Slot(slot), &hashes);
            }
            check();
        }
        assert_eq!((index.len(), index.blocks()), (4_000 * endpoints as usize, 4_000));
        for slot in 0..endpoints {
            index.remove(Slot(slot));
            check();
        }
        assert_eq!(index.blocks(), 0);
    }
}

/// Bytes of this process in memory; 0 where the system does not tell.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4_096
}
