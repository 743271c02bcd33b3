//! Blocks per second of recording and matching, and bytes per entry.
//!
//! Prompts of 63 blocks (4,000 tokens at 64 a block) whose first 8 blocks, the system prompt, are everybody's. Every
//! endpoint is full, so each new block evicts one.
#![allow(missing_docs, reason = "what criterion's macros make cannot be documented")]
#![allow(clippy::print_stdout, reason = "bytes per entry is a result, too")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pointsman_core::{BlockHash, Slot, chain, chain_seed};
use pointsman_prefix::{ApproxIndex, MatchScratch};

const BLOCKS: usize = 63;
const SHARED: u64 = 8;

fn prompt(number: u64) -> Vec<BlockHash> {
    let contents: Vec<u64> = (0..BLOCKS as u64).map(|i| if i < SHARED { i } else { number << 8 | i }).collect();
    let mut out = Vec::new();
    chain(chain_seed("llama", ""), &contents, &mut out);
    out
}

/// An index in which prompt `n` is held by endpoint `n % endpoints`, and the prompts.
fn full(endpoints: u32, capacity: usize) -> (ApproxIndex, Vec<Vec<BlockHash>>) {
    let index = ApproxIndex::new(capacity);
    let per_endpoint = capacity / (BLOCKS - SHARED as usize) + 2;
    let prompts: Vec<_> = (0..u64::from(endpoints) * per_endpoint as u64).map(prompt).collect();
    for (number, chain) in prompts.iter().enumerate() {
        index.record(Slot(number as u32 % endpoints), chain);
    }
    assert_eq!(index.len(), capacity * endpoints as usize);
    (index, prompts)
}

fn record(c: &mut Criterion) {
    let mut group = c.benchmark_group("record");
    group.throughput(Throughput::Elements(BLOCKS as u64));
    let (index, prompts) = full(10, 31_250);
    println!(
        "memory: {:.1} bytes per entry, {} entries",
        index.memory_bytes() as f64 / index.len() as f64,
        index.len()
    );
    // Twice as many prompts as fit: what is recorded was evicted before it comes again.
    let many: Vec<_> = (0..prompts.len() as u64 * 2).map(|n| prompt(1 << 32 | n)).collect();
    let mut turn = 0;
    group.bench_function("new prompts", |b| {
        b.iter(|| {
            turn = (turn + 1) % many.len();
            index.record(Slot(turn as u32 % 10), black_box(&many[turn]))
        });
    });
    let (index, prompts) = full(10, 31_250);
    let recent = &prompts[prompts.len() - 1_000..];
    let first = prompts.len() - 1_000;
    group.bench_function("held prompts", |b| {
        b.iter(|| {
            turn = (turn + 1) % recent.len();
            index.record(Slot((first + turn) as u32 % 10), black_box(&recent[turn]))
        });
    });
    group.finish();
}

fn match_chain(c: &mut Criterion) {
    let mut group = c.benchmark_group("match 63 blocks");
    group.throughput(Throughput::Elements(BLOCKS as u64));
    for (endpoints, capacity) in [(10, 31_250), (1_000, 1_250)] {
        let (index, prompts) = full(endpoints, capacity);
        let recent = &prompts[prompts.len() - 10 * endpoints as usize..];
        let mut unknown: Vec<_> = (0..1_000).map(|n| prompt(2 << 32 | n)).collect();
        let mut scratch = MatchScratch::default();
        let mut turn = 0;
        group.bench_function(BenchmarkId::new("one endpoint holds it", endpoints), |b| {
            b.iter(|| {
                turn = (turn + 1) % recent.len();
                index.match_chain(black_box(&recent[turn]), &mut scratch);
                scratch.of(Slot(0))
            });
        });
        group.bench_function(BenchmarkId::new("system prompt only", endpoints), |b| {
            b.iter(|| {
                turn = (turn + 1) % unknown.len();
                index.match_chain(black_box(&unknown[turn]), &mut scratch);
                scratch.of(Slot(0))
            });
        });
        unknown.iter_mut().for_each(|chain| drop(chain.drain(..SHARED as usize)));
        group.bench_function(BenchmarkId::new("nobody holds it", endpoints), |b| {
            b.iter(|| {
                turn = (turn + 1) % unknown.len();
                index.match_chain(black_box(&unknown[turn]), &mut scratch);
                scratch.of(Slot(0))
            });
        });
    }
    group.finish();
}

criterion_group!(benches, record, match_chain);
criterion_main!(benches);
