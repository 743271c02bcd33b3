//! The index as a tree: which prefixes prompts share, and who holds which.
//!
//! Blocks that follow each other without a fork and with the same holders make one [`Branch`]. Both what is looked at and what comes back is bounded:
//! of every endpoint the most recently used blocks, and of all branches those beneath which most is held. Both selections keep the branches before a
//! branch, so that what comes back is always a tree.

use std::collections::HashMap;

use pointsman_core::{BlockHash, Slot};

use crate::ApproxIndex;

/// Blocks in a row that the same endpoints hold, without a fork between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Hash of its last block, which stands for everything up to there.
    pub hash: BlockHash,
    /// The branch before it, by its place in [`Tree::branches`]; `None` where prompts begin.
    pub parent: Option<usize>,
    /// Blocks in it.
    pub blocks: u32,
    /// Blocks up to its end, those before it included.
    pub depth: u32,
    /// Slots of the endpoints that hold it.
    pub holders: Vec<u32>,
    /// Ends of prompts in it and beneath it: how many different prompts that are still held begin with it.
    pub prompts: u32,
    /// Blocks of the longest of these prompts.
    pub longest: u32,
    /// Prompts that a holder was sent since it was last sent this one; the least of all holders.
    pub idle: u32,
    /// Branches that follow it and do not come back.
    pub omitted: u32,
    /// Blocks in and beneath those.
    pub omitted_blocks: u64,
}

/// Some of the index, as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Each after the one before it.
    pub branches: Vec<Branch>,
    /// Branches without one before them that do not come back.
    pub omitted: u32,
    /// (block, endpoint) pairs that were looked at.
    pub examined: usize,
    /// Whether these were all.
    pub complete: bool,
}

struct Block {
    hash: BlockHash,
    parent: Option<usize>,
    holders: Vec<u32>,
    children: u32,
    idle: u32,
    depth: u32,
    prompts: u32,
    longest: u32,
    /// Pairs in and beneath it.
    held: u64,
    beneath: u64,
    branch: usize,
}

impl ApproxIndex {
    /// Looks at `examine` (block, endpoint) pairs, the same number of every endpoint, and gives the `most` branches beneath which most is held.
    #[must_use]
    pub fn tree(&self, examine: usize, most: usize) -> Tree {
        let (mut blocks, complete) = self.blocks_seen(examine);
        measure(&mut blocks);
        let branches = joined(&mut blocks);
        let mut tree = chosen(branches, most);
        tree.examined = blocks.iter().map(|b| b.holders.len()).sum();
        tree.complete = complete;
        tree
    }

    fn blocks_seen(&self, examine: usize) -> (Vec<Block>, bool) {
        let slots = self.slots();
        let each = examine / slots.max(1);
        let (mut blocks, mut at) = (Vec::<Block>::new(), HashMap::<u64, usize>::new());
        let mut complete = true;
        for slot in (0..slots as u32).map(Slot) {
            complete &= self.newest(slot, each, |hash, parent, idle| {
                let parent = parent.and_then(|p| at.get(&p.0).copied());
                let place = *at.entry(hash.0).or_insert_with(|| {
                    if let Some(parent) = parent {
                        blocks[parent].children += 1;
                    }
                    blocks.push(Block {
                        hash,
                        parent,
                        holders: Vec::new(),
                        children: 0,
                        idle,
                        depth: parent.map_or(0, |p| blocks[p].depth) + 1,
                        prompts: 0,
                        longest: 0,
                        held: 0,
                        beneath: 0,
                        branch: 0,
                    });
                    blocks.len() - 1
                });
                let block = &mut blocks[place];
                block.holders.push(slot.0);
                block.idle = block.idle.min(idle);
            });
        }
        (blocks, complete)
    }
}

/// What lies beneath each block. A block comes after the one before it, so the way back meets the ends first.
fn measure(blocks: &mut [Block]) {
    for at in (0..blocks.len()).rev() {
        let block = &mut blocks[at];
        if block.children == 0 {
            block.prompts = 1;
        }
        block.longest = block.longest.max(block.depth);
        block.held += block.holders.len() as u64;
        block.beneath += 1;
        let (parent, prompts, longest, held, beneath) =
            (block.parent, block.prompts, block.longest, block.held, block.beneath);
        if let Some(parent) = parent {
            let parent = &mut blocks[parent];
            parent.prompts += prompts;
            parent.longest = parent.longest.max(longest);
            parent.held += held;
            parent.beneath += beneath;
        }
    }
}

/// A branch, and what decides whether it is shown.
struct Joined {
    branch: Branch,
    held: u64,
    beneath: u64,
}

fn joined(blocks: &mut [Block]) -> Vec<Joined> {
    let mut branches: Vec<Joined> = Vec::new();
    for at in 0..blocks.len() {
        let before = blocks[at].parent;
        let goes_on = before.filter(|&p| blocks[p].children == 1 && blocks[p].holders == blocks[at].holders);
        let block = &blocks[at];
        let place = if let Some(parent) = goes_on {
            let place = blocks[parent].branch;
            let branch = &mut branches[place].branch;
            (branch.hash, branch.blocks, branch.depth) = (block.hash, branch.blocks + 1, block.depth);
            branch.idle = branch.idle.min(block.idle);
            place
        } else {
            let branch = Branch {
                hash: block.hash,
                parent: before.map(|p| blocks[p].branch),
                blocks: 1,
                depth: block.depth,
                holders: block.holders.clone(),
                prompts: block.prompts,
                longest: block.longest,
                idle: block.idle,
                omitted: 0,
                omitted_blocks: 0,
            };
            branches.push(Joined { branch, held: block.held, beneath: block.beneath });
            branches.len() - 1
        };
        blocks[at].branch = place;
    }
    branches
}

fn chosen(mut branches: Vec<Joined>, most: usize) -> Tree {
    let mut order: Vec<usize> = (0..branches.len()).collect();
    // What is held beneath a branch is more than beneath any that follows it; of equals the earlier comes first.
    order.sort_by_key(|&at| (std::cmp::Reverse(branches[at].held), at));
    let mut kept: Vec<usize> = order.iter().copied().take(most).collect();
    kept.sort_unstable();
    let mut place = vec![None; branches.len()];
    for (new, &old) in kept.iter().enumerate() {
        place[old] = Some(new);
    }
    let mut omitted = 0;
    for at in 0..branches.len() {
        if place[at].is_some() {
            continue;
        }
        match branches[at].branch.parent {
            None => omitted += 1,
            // Only the topmost of what is left out is counted, with all that lies beneath it.
            Some(parent) if place[parent].is_some() => {
                let beneath = branches[at].beneath;
                let parent = &mut branches[parent].branch;
                parent.omitted += 1;
                parent.omitted_blocks += beneath;
            }
            Some(_) => {}
        }
    }
    let branches = kept
        .iter()
        .map(|&old| {
            let mut branch = branches[old].branch.clone();
            branch.parent = branch.parent.and_then(|parent| place[parent]);
            branch
        })
        .collect();
    Tree { branches, omitted, ..Tree::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(hashes: &[u64]) -> Vec<BlockHash> {
        hashes.iter().map(|h| BlockHash(*h)).collect()
    }

    fn index() -> ApproxIndex {
        let index = ApproxIndex::new(100);
        index.record(Slot(0), &chain(&[1, 2, 3, 4]));
        index.record(Slot(0), &chain(&[1, 2, 5]));
        index.record(Slot(1), &chain(&[1, 2]));
        index.record(Slot(1), &chain(&[9]));
        index
    }

    #[test]
    fn blocks_without_a_fork_that_the_same_endpoints_hold_are_one_branch() {
        let tree = index().tree(1_000, 100);
        let told: Vec<_> = tree
            .branches
            .iter()
            .map(|b| (b.hash.0, b.parent, b.blocks, b.depth, b.holders.clone(), b.prompts))
            .collect();
        assert_eq!(
            told,
            [
                (2, None, 2, 2, vec![0, 1], 2),
                (5, Some(0), 1, 3, vec![0], 1),
                (4, Some(0), 2, 4, vec![0], 1),
                (9, None, 1, 1, vec![1], 1),
            ]
        );
        assert_eq!((tree.branches[0].longest, tree.branches[0].idle), (4, 0));
        assert_eq!((tree.branches[2].idle, tree.examined, tree.complete), (1, 8, true));
    }

    #[test]
    fn what_is_left_out_is_counted_where_it_would_stand() {
        let tree = index().tree(1_000, 2);
        let told: Vec<_> = tree.branches.iter().map(|b| (b.hash.0, b.omitted, b.omitted_blocks)).collect();
        assert_eq!((told, tree.omitted), (vec![(2, 1, 1), (4, 0, 0)], 1));
        assert_eq!(index().tree(1_000, 0).omitted, 2);
    }

    #[test]
    fn a_look_that_ends_early_still_gives_whole_prefixes() {
        for examine in 0..20 {
            let tree = index().tree(examine, 100);
            assert_eq!(tree.complete, examine >= 10, "{examine}");
            for branch in &tree.branches {
                let before = branch.parent.map_or(0, |p| tree.branches[p].depth);
                assert_eq!(branch.depth, before + branch.blocks);
            }
        }
    }
}
