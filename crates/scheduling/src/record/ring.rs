//! The newest records, within a budget of bytes.

use super::{Decision, DecisionId};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

const SHARDS: usize = 16;

/// A ring of records. Requests that end at the same time meet in the same shard only by chance: no lock is shared by all.
#[derive(Debug)]
pub struct Ring {
    shards: Vec<Mutex<Shard>>,
    budget: usize,
}

#[derive(Debug, Default)]
struct Shard {
    records: VecDeque<(Arc<Decision>, usize)>,
    bytes: usize,
    pushed: u64,
}

impl Ring {
    /// A ring of at most `budget` bytes.
    #[must_use]
    pub fn new(budget: usize) -> Self {
        let share = if budget == 0 { 0 } else { (budget / SHARDS).max(1) };
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), budget: share }
    }

    fn shard(&self, id: DecisionId) -> &Mutex<Shard> {
        // Scattered by the golden ratio: at low rates only the milliseconds of an identity differ, at high ones only its counter.
        &self.shards[(id.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - SHARDS.ilog2())) as usize]
    }

    /// Keeps a record; the oldest ones of its shard make room.
    pub fn push(&self, record: Arc<Decision>) {
        if !self.keeps() {
            return;
        }
        let mut bytes = record.bytes();
        // One record in, at most a few out: their sizes differ little, and what is over the budget now goes with the next.
        let mut gone: [Option<Arc<Decision>>; 4] = Default::default();
        let mut shard = self.shard(record.id).lock();
        // Records share the names of their fleet; the first of a shard to bring new ones pays for them.
        if shard.records.back().is_none_or(|(last, _)| !Arc::ptr_eq(&last.fleet, &record.fleet)) {
            bytes += record.fleet.bytes();
        }
        shard.bytes += bytes;
        shard.pushed += 1;
        shard.records.push_back((record, bytes));
        for place in &mut gone {
            if shard.bytes <= self.budget || shard.records.len() <= 1 {
                break;
            }
            if let Some((old, bytes)) = shard.records.pop_front() {
                shard.bytes -= bytes;
                *place = Some(old);
            }
        }
        drop(shard);
        // Freed outside the lock.
        drop(gone);
    }

    /// The record of that identity, if it is still kept.
    #[must_use]
    pub fn get(&self, id: DecisionId) -> Option<Arc<Decision>> {
        let shard = self.shard(id).lock();
        shard.records.iter().rev().find(|(r, _)| r.id == id).map(|(r, _)| Arc::clone(r))
    }

    /// The newest `limit` records, newest first; only those after `after` when given.
    #[must_use]
    pub fn newest(&self, limit: usize, after: Option<DecisionId>) -> Vec<Arc<Decision>> {
        let mut all: Vec<Arc<Decision>> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            let new = shard.records.iter().rev().take(limit).filter(|(r, _)| after.is_none_or(|a| r.id > a));
            all.extend(new.map(|(r, _)| Arc::clone(r)));
        }
        all.sort_by_key(|r| std::cmp::Reverse(r.id));
        all.truncate(limit);
        all
    }

    /// Whether anything is kept at all. A budget of no bytes is for measuring what records cost.
    #[must_use]
    pub fn keeps(&self) -> bool {
        self.budget > 0
    }

    /// Records that ever came in.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.shards.iter().map(|s| s.lock().pushed).sum()
    }

    /// Bytes kept.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|s| s.lock().bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::DecisionIds;

    fn decision(id: DecisionId) -> Arc<Decision> {
        Arc::new(Decision::blank(id))
    }

    /// Records kept of `count`, so many of which come in each period of so many milliseconds, in a ring with room for `room`.
    fn kept(count: u64, each: u64, millis: u64, room: usize) -> Vec<u64> {
        let ids = DecisionIds::default();
        let ids: Vec<DecisionId> = (0..count).map(|n| ids.next(1_764_449_000_000 + n / each * millis)).collect();
        let ring = Ring::new(room * decision(ids[0]).bytes());
        ids.iter().for_each(|id| ring.push(decision(*id)));
        let newest = ring.newest(usize::MAX, None);
        newest.iter().map(|r| ids.iter().rev().position(|id| *id == r.id).expect("one of them") as u64).collect()
    }

    #[test]
    fn the_whole_budget_is_used_whatever_the_rate() {
        for (each, millis) in [(1, 50), (1, 7), (1, 1), (3, 1), (30, 1)] {
            let kept = kept(4_000, each, millis, 1_600);
            assert!(kept.len() >= 1_400, "{each} in {millis} ms: {}", kept.len());
            assert!((0..1_200).all(|age| kept.contains(&age)), "{each} in {millis} ms: the newest are there");
        }
    }
}
