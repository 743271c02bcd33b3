//! How many leading blocks of a chain every endpoint holds.

use pointsman_core::{BlockHash, Slot};

use crate::ApproxIndex;

/// Answer of a match, one number for every slot; kept by the caller so that matching allocates nothing. Starting anew
/// costs O(1).
#[derive(Debug, Default)]
pub struct MatchScratch {
    cells: Vec<Cell>,
    /// Number of the request whose answer this is.
    request: u32,
    /// Number of the chain under search.
    chain: u32,
    /// Positions whose number of holders is known, in ascending order.
    probes: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    request: u32,
    chain: u32,
    blocks: u32,
}

impl MatchScratch {
    /// Leading blocks that the endpoint holds, summed over the chains of the request; 0 for one that nothing is known
    /// of.
    #[must_use]
    pub fn of(&self, slot: Slot) -> u32 {
        match self.cells.get(slot.index()) {
            Some(cell) if cell.request == self.request => cell.blocks,
            _ => 0,
        }
    }

    /// Forgets the answer.
    pub fn reset(&mut self) {
        self.next_chain();
        self.request = self.request.wrapping_add(1);
        if self.request == 0 {
            // Once in four billion requests: old numbers would count as new ones.
            self.cells.clear();
            self.request = 1;
        }
    }

    fn next_chain(&mut self) {
        self.chain = self.chain.wrapping_add(1);
        if self.chain == 0 {
            self.cells.iter_mut().for_each(|cell| cell.chain = 0);
            self.chain = 1;
        }
    }

    /// Counts `blocks` for a slot, once per chain: the deepest place is visited first.
    fn mark(&mut self, slot: u32, blocks: u32) {
        let at = slot as usize;
        if at >= self.cells.len() {
            self.cells.resize(at + 1, Cell::default());
        }
        let cell = &mut self.cells[at];
        if cell.request != self.request {
            *cell = Cell { request: self.request, chain: 0, blocks: 0 };
        }
        if cell.chain != self.chain {
            cell.chain = self.chain;
            cell.blocks = cell.blocks.saturating_add(blocks);
        }
    }
}

impl ApproxIndex {
    /// Finds for every endpoint how many leading blocks of `chain` it holds: contiguous from block 0, per endpoint.
    ///
    /// While other threads write, an endpoint may be reported with what it held at some moment of the call, or with
    /// too little; never with more than it held. After the writers are done the answer is exact.
    pub fn match_chain(&self, chain: &[BlockHash], matched: &mut MatchScratch) {
        matched.reset();
        self.add_matches(chain, matched);
    }

    /// The same, added to what `matched` holds already: for a request with several prompts. Begin with
    /// [`MatchScratch::reset`].
    pub fn add_matches(&self, chain: &[BlockHash], matched: &mut MatchScratch) {
        let Some(&root) = chain.first() else { return };
        let at_root = self.holders(root);
        if at_root == 0 {
            return;
        }
        matched.next_chain();
        matched.probes.clear();
        matched.probes.push((0, at_root));
        // Everything from `end` on is answered; the set of holders there has `deeper` members.
        let (mut end, mut deeper) = (chain.len(), 0);
        while let Some(&(mut last, mut holders)) = matched.probes.last() {
            if holders <= deeper {
                // As many as further right, and sets only shrink: the same set.
                end = last;
                matched.probes.pop();
                continue;
            }
            // The last position with more holders than at `end`.
            while end - last > 1 {
                let middle = last + (end - last) / 2;
                let there = self.holders(chain[middle]);
                if there > deeper {
                    (last, holders) = (middle, there);
                    matched.probes.push((last, holders));
                } else {
                    end = middle;
                }
            }
            self.each_holder(chain[last], |slot| matched.mark(slot, last as u32 + 1));
            (end, deeper) = (last, holders);
        }
    }
}
