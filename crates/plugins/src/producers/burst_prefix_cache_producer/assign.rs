//! Placing the prompts of one batch.
//!
//! 1. Equal prompts are a group. What is placed are groups of two and more, then (when prompts are colocated) single prompts that share enough leading blocks with
//!    another group; among each, those with the most blocks first, in order of arrival where equal. Other single prompts stay unassigned.
//! 2. A replica's load is the requests it was given, or the blocks it must compute: of each group its own, less those that stand at the beginning of a group it has
//!    already. Its fair share is all load divided by the replicas, rounded up.
//! 3. A group begins at the replica that already has the most of its leading blocks, if colocated and below share and limit; else at the least loaded one, of equal ones
//!    at that with the fewest running requests, then by name.
//! 4. Each replica takes members up to its limit; then the next one is chosen by load. When all are at the limit, members go one by one to the least loaded.

use pointsman_core::BlockHash;
use pointsman_scheduling::Candidate;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where prompts can go.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replica {
    /// Identity of the endpoint.
    pub(super) id: u64,
    /// Requests that run there; infinite where that is not known, so that it does not look idle.
    pub(super) running: f64,
    /// Its name.
    pub(super) name: Arc<str>,
}

impl Replica {
    pub(super) fn of(candidate: &Candidate<'_>) -> Self {
        let running = candidate.running().unwrap_or(f64::INFINITY);
        Self { id: candidate.endpoint.id, running, name: candidate.endpoint.name().to_string().into() }
    }
}

/// What is spread evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Balance {
    Requests,
    Blocks,
}

/// How a batch is placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assigning {
    /// Members that a replica is given while another has fewer.
    pub(super) max_per_replica: usize,
    /// Leading blocks that different prompts must share to be put together; 0: never.
    pub(super) min_colocate_blocks: usize,
    /// What is spread.
    pub(super) balance: Balance,
}

/// What a replica was given.
#[derive(Clone, Default)]
struct Given {
    load: usize,
    members: usize,
    /// All blocks of its prompts; empty where nobody asks.
    blocks: HashSet<BlockHash>,
}

impl Given {
    /// Leading blocks of a prompt that it has already. It has a block only with all that come before it, so this is found by bisection.
    fn shares(&self, prompt: &[BlockHash]) -> usize {
        prompt.partition_point(|block| self.blocks.contains(block))
    }
}

/// For each prompt (its block hashes, each of which stands for all blocks up to its own; one without any is skipped) the replica it goes to.
pub(super) fn assign(prompts: &[&[BlockHash]], replicas: &[Replica], how: Assigning) -> Vec<Option<usize>> {
    let mut assigned = vec![None; prompts.len()];
    if replicas.is_empty() {
        return assigned;
    }
    let groups = groups(prompts);
    let units = units(&groups, how.min_colocate_blocks);
    let weight = |(prompt, members): &Group<'_>| match how.balance {
        Balance::Requests => members.len(),
        Balance::Blocks => prompt.len(),
    };
    let share = units.iter().map(|unit| weight(unit)).sum::<usize>().div_ceil(replicas.len());
    let mut given = vec![Given::default(); replicas.len()];
    for (prompt, members) in units {
        let mut left = &members[..];
        let mut near = how.min_colocate_blocks > 0;
        while !left.is_empty() {
            let colocated = std::mem::take(&mut near).then(|| colocated(&given, prompt, share, how)).flatten();
            let r = colocated.unwrap_or_else(|| least(&given, replicas, how.max_per_replica));
            let room = how.max_per_replica.saturating_sub(given[r].members);
            // All are at the limit: one by one.
            let take = if room == 0 { 1 } else { room.min(left.len()) };
            let (now, later) = left.split_at(take);
            now.iter().for_each(|m| assigned[*m] = Some(r));
            left = later;
            place(&mut given[r], prompt, take, how);
        }
    }
    assigned
}

fn place(given: &mut Given, prompt: &[BlockHash], members: usize, how: Assigning) {
    given.members += members;
    let by_blocks = how.balance == Balance::Blocks;
    if !by_blocks {
        given.load += members;
    }
    if by_blocks || how.min_colocate_blocks > 0 {
        let new = &prompt[given.shares(prompt)..];
        given.load += if by_blocks { new.len() } else { 0 };
        given.blocks.extend(new);
    }
}

/// A prompt and which requests have it.
type Group<'p> = (&'p [BlockHash], Vec<usize>);

/// Equal prompts, in order of arrival.
fn groups<'p>(prompts: &[&'p [BlockHash]]) -> Vec<Group<'p>> {
    let mut at: HashMap<&[BlockHash], usize> = HashMap::new();
    let mut groups: Vec<Group<'p>> = Vec::new();
    for (n, prompt) in prompts.iter().copied().enumerate().filter(|(_, p)| !p.is_empty()) {
        let g = *at.entry(prompt).or_insert(groups.len());
        match groups.get_mut(g) {
            Some(group) => group.1.push(n),
            None => groups.push((prompt, vec![n])),
        }
    }
    groups
}

/// What is placed, in the order in which it is.
fn units<'g, 'p>(groups: &'g [Group<'p>], min_colocate: usize) -> Vec<&'g Group<'p>> {
    let begins = |g: &Group<'p>| g.0.get(min_colocate.saturating_sub(1)).copied();
    let mut beginnings: HashMap<BlockHash, usize> = HashMap::new();
    if min_colocate > 0 {
        for hash in groups.iter().filter_map(begins) {
            *beginnings.entry(hash).or_default() += 1;
        }
    }
    // A block hash stands for all blocks before it: an equal one at that place means an equal beginning.
    let near = |g: &Group<'p>| begins(g).is_some_and(|hash| beginnings.get(&hash).is_some_and(|n| *n > 1));
    let (mut several, mut single): (Vec<_>, Vec<_>) = groups.iter().partition(|g| g.1.len() > 1);
    single.retain(|g| near(g));
    several.sort_by_key(|g| Reverse(g.0.len()));
    single.sort_by_key(|g| Reverse(g.0.len()));
    several.append(&mut single);
    several
}

/// The replica that has the most of a prompt's leading blocks, of those that may take more.
fn colocated(given: &[Given], prompt: &[BlockHash], share: usize, how: Assigning) -> Option<usize> {
    let room = |g: &Given| g.load < share && g.members < how.max_per_replica;
    let last = prompt.get(how.min_colocate_blocks.checked_sub(1)?)?;
    let near = given.iter().enumerate().filter(|(_, g)| room(g) && g.blocks.contains(last));
    near.map(|(r, g)| (g.shares(prompt), Reverse(r))).max().map(|(_, Reverse(r))| r)
}

/// The least loaded replica of those below the limit, else of all.
fn least(given: &[Given], replicas: &[Replica], limit: usize) -> usize {
    let order = |a: &usize, b: &usize| {
        let full = |r: usize| given[r].members >= limit;
        let (x, y) = (&replicas[*a], &replicas[*b]);
        (full(*a).cmp(&full(*b)))
            .then(given[*a].load.cmp(&given[*b].load))
            .then(x.running.total_cmp(&y.running))
            .then_with(|| x.name.cmp(&y.name))
    };
    (0..replicas.len()).min_by(order).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: Assigning =
        Assigning { max_per_replica: usize::MAX, min_colocate_blocks: 0, balance: Balance::Requests };

    fn replicas(running: &[f64]) -> Vec<Replica> {
        let one =
            |(i, running): (usize, &f64)| Replica { id: i as u64, running: *running, name: format!("r{i}").into() };
        running.iter().enumerate().map(one).collect()
    }

    /// Prompts by a letter for each block; as in a chain, a hash stands for all letters up to its own.
    fn prompts(words: &[&str]) -> Vec<Vec<BlockHash>> {
        let chain = |w: &&str| (1..=w.len()).map(|n| BlockHash(pointsman_core::xxh64(&w.as_bytes()[..n]))).collect();
        words.iter().map(chain).collect()
    }

    fn assigned(words: &[&str], running: &[f64], how: Assigning) -> Vec<Option<usize>> {
        let prompts = prompts(words);
        let slices: Vec<&[BlockHash]> = prompts.iter().map(|p| &p[..]).collect();
        assign(&slices, &replicas(running), how)
    }

    #[test]
    fn the_example_three_equal_and_two_equal_on_two_idle_replicas() {
        let got = assigned(&["aa", "bb", "aa", "bb", "aa"], &[0.0, 0.0], PLAIN);
        assert_eq!(got, [Some(0), Some(1), Some(0), Some(1), Some(0)]);
        // The longer prompt is placed first, and then there is no tie.
        let longer = assigned(&["a", "a", "bb", "bb"], &[5.0, 0.0], PLAIN);
        assert_eq!(longer, [Some(0), Some(0), Some(1), Some(1)]);
    }

    #[test]
    fn a_prompt_that_shares_nothing_and_one_without_blocks_stay_unassigned() {
        assert_eq!(assigned(&["ab", "", "cd", "cd"], &[0.0], PLAIN), [None, None, Some(0), Some(0)]);
        assert_eq!(assigned(&["ab", "ab"], &[], PLAIN), [None, None]);
    }

    #[test]
    fn prompts_with_enough_in_common_are_put_together_up_to_the_share() {
        let how = Assigning { min_colocate_blocks: 2, ..PLAIN };
        // Four requests on two replicas: a share of two.
        let got = assigned(&["abx", "aby", "cdx", "cdy"], &[0.0, 0.0], how);
        assert_eq!(got, [Some(0), Some(0), Some(1), Some(1)]);
        // Too little in common.
        assert_eq!(assigned(&["ax", "ay"], &[0.0, 0.0], how), [None, None]);
    }

    #[test]
    fn by_blocks_what_a_replica_has_already_costs_nothing() {
        let how = Assigning { min_colocate_blocks: 2, balance: Balance::Blocks, ..PLAIN };
        let got = assigned(&["abcdef", "abcdeg", "pq", "pq"], &[0.0, 0.0], how);
        // "pq" first, since it is a group; then the two long ones together on the other replica, up to the share of 7.
        assert_eq!(got, [Some(1), Some(1), Some(0), Some(0)]);
    }

    #[test]
    fn a_limit_spreads_a_group_and_what_is_beyond_all_limits_goes_one_by_one() {
        let how = Assigning { max_per_replica: 2, ..PLAIN };
        let got = assigned(&["a"; 7], &[0.0, 0.0, 9.0], how);
        let count = |r: usize| got.iter().filter(|g| **g == Some(r)).count();
        assert_eq!((count(0), count(1), count(2)), (3, 2, 2));
    }

    #[test]
    fn a_replica_whose_load_is_unknown_is_the_last_of_equals() {
        assert_eq!(assigned(&["a", "a"], &[f64::INFINITY, 3.0], PLAIN), [Some(1), Some(1)]);
    }

    /// As [`assign`], with every prompt compared to all that were placed before, block by block.
    fn plainly(prompts: &[&[BlockHash]], replicas: &[Replica], how: Assigning) -> Vec<Option<usize>> {
        let shared = |a: &[BlockHash], b: &[BlockHash]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
        let mut assigned = vec![None; prompts.len()];
        let groups = groups(prompts);
        let units = units(&groups, how.min_colocate_blocks);
        let weight = |g: &Group<'_>| if how.balance == Balance::Requests { g.1.len() } else { g.0.len() };
        let share = units.iter().map(|unit| weight(unit)).sum::<usize>().div_ceil(replicas.len());
        let mut given = vec![Given::default(); replicas.len()];
        let mut placed: Vec<Vec<&[BlockHash]>> = vec![Vec::new(); replicas.len()];
        for (prompt, members) in units {
            let mut left = &members[..];
            while !left.is_empty() {
                let has = |r: usize| placed[r].iter().map(|have| shared(have, prompt)).max().unwrap_or(0);
                let first = how.min_colocate_blocks > 0 && left.len() == members.len();
                let room = |r: &usize| given[*r].load < share && given[*r].members < how.max_per_replica;
                let near = (0..replicas.len()).filter(|r| first && room(r) && has(*r) >= how.min_colocate_blocks);
                let r = near.max_by_key(|r| (has(*r), Reverse(*r)));
                let r = r.unwrap_or_else(|| least(&given, replicas, how.max_per_replica));
                let room = how.max_per_replica.saturating_sub(given[r].members);
                let take = if room == 0 { 1 } else { room.min(left.len()) };
                let new = prompt.len() - has(r);
                given[r].members += take;
                given[r].load += if how.balance == Balance::Requests { take } else { new };
                placed[r].push(prompt);
                left[..take].iter().for_each(|m| assigned[*m] = Some(r));
                left = &left[take..];
            }
        }
        assigned
    }

    #[test]
    fn a_thousand_prompts_under_one_long_beginning_are_placed_without_comparing_them_all() {
        // Compared one by one, these are some billions of comparisons of blocks.
        let long = |n: u64| (0..4_000).map(BlockHash).chain([BlockHash(1_000_000 + n)]).collect::<Vec<BlockHash>>();
        let prompts: Vec<Vec<BlockHash>> = (0..1_000).map(long).collect();
        let slices: Vec<&[BlockHash]> = prompts.iter().map(|p| &p[..]).collect();
        let how = Assigning { min_colocate_blocks: 1, balance: Balance::Blocks, ..PLAIN };
        let got = assign(&slices, &replicas(&[0.0]), how);
        assert_eq!(got, vec![Some(0); 1_000]);
    }

    proptest! {
        #[test]
        fn it_is_what_comparing_all_prompts_gives(
            words in prop::collection::vec("[ab]{0,5}", 0..30),
            running in prop::collection::vec(0.0..3.0f64, 1..5),
            limit in prop::option::of(1usize..4),
            colocate in 0usize..4,
            by_blocks: bool,
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let balance = if by_blocks { Balance::Blocks } else { Balance::Requests };
            let how = Assigning { max_per_replica: limit.unwrap_or(usize::MAX), min_colocate_blocks: colocate, balance };
            let prompts = prompts(&words);
            let slices: Vec<&[BlockHash]> = prompts.iter().map(|p| &p[..]).collect();
            let replicas = replicas(&running);
            prop_assert_eq!(assign(&slices, &replicas, how), plainly(&slices, &replicas, how));
        }

        #[test]
        fn equal_prompts_stay_together_without_a_limit_and_limits_are_kept_while_they_can_be(
            words in prop::collection::vec("[ab]{0,3}", 0..40),
            running in prop::collection::vec(0.0..10.0f64, 1..6),
            limit in prop::option::of(1usize..5),
            colocate in 0usize..3,
            by_blocks: bool,
        ) {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let balance = if by_blocks { Balance::Blocks } else { Balance::Requests };
            let how = Assigning { max_per_replica: limit.unwrap_or(usize::MAX), min_colocate_blocks: colocate, balance };
            let got = assigned(&words, &running, how);
            prop_assert_eq!(&got, &assigned(&words, &running, how), "the same again");
            for (n, word) in words.iter().enumerate() {
                let equal = words.iter().filter(|w| *w == word).count();
                prop_assert!(got[n].is_some() || equal == 1 || word.is_empty(), "{} of {} is nowhere", word, equal);
                prop_assert!(got[n].is_none() || !word.is_empty());
                let alone = equal == 1 && (colocate == 0 || word.len() < colocate
                    || words.iter().filter(|w| w.len() >= colocate && w[..colocate] == word[..colocate]).count() == 1);
                prop_assert!(!alone || got[n].is_none(), "{} has nobody to be with", word);
                if limit.is_none() {
                    let same = words.iter().zip(&got).filter(|(w, _)| *w == word).all(|(_, g)| *g == got[n]);
                    prop_assert!(same, "{} is in two places", word);
                }
            }
            let placed = got.iter().flatten().count();
            let most = (0..running.len()).map(|r| got.iter().filter(|g| **g == Some(r)).count()).max().unwrap_or(0);
            if let Some(limit) = limit {
                prop_assert!(most <= limit || placed > limit * running.len(), "{} on one replica", most);
            }
        }
    }
}
