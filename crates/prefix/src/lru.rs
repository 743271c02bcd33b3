//! The blocks of one endpoint, in order of use.

use pointsman_core::BlockHash;

/// Stands for "no node".
pub(crate) const NONE: u32 = u32::MAX;

/// Nodes per allocation. Storage grows by whole chunks, so that slack is a constant and not a share.
const CHUNK: usize = 256;

/// One block that the endpoint holds.
#[derive(Clone, Copy)]
pub(crate) struct Node {
    /// Its hash.
    pub(crate) hash: BlockHash,
    /// The node used just after this one (towards the most recent), or [`NONE`].
    newer: u32,
    /// The node used just before this one (towards the least recent), or [`NONE`]. Links free nodes, too.
    older: u32,
    /// The block before it in its prompts, or [`NONE`] for a first block.
    pub(crate) parent: u32,
    /// Number of the record that used it last.
    pub(crate) stamp: u32,
}

/// Doubly linked list over a slab of nodes, most recently used first.
pub(crate) struct Lru {
    chunks: Vec<Box<[Node]>>,
    free: u32,
    newest: u32,
    oldest: u32,
    len: usize,
}

impl Default for Lru {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: NONE, newest: NONE, oldest: NONE, len: 0 }
    }
}

impl Lru {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn node(&self, at: u32) -> &Node {
        &self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    pub(crate) fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.chunks[at as usize / CHUNK][at as usize % CHUNK]
    }

    /// The least recently used node, or [`NONE`].
    pub(crate) fn oldest(&self) -> u32 {
        self.oldest
    }

    /// Nodes from the most to the least recently used: every block comes before those that follow it in a prompt.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Node> {
        let mut at = self.newest;
        std::iter::from_fn(move || {
            let node = (at != NONE).then(|| self.node(at))?;
            at = node.older;
            Some(node)
        })
    }

    /// A node that is not in the list yet: [`Lru::link_after`] puts it there, [`Lru::release`] gives it back.
    pub(crate) fn alloc(&mut self, hash: BlockHash, parent: u32, stamp: u32) -> u32 {
        if self.free == NONE {
            self.grow();
        }
        let at = self.free;
        self.free = self.node(at).older;
        *self.node_mut(at) = Node { hash, newer: NONE, older: NONE, parent, stamp };
        at
    }

    /// Gives back a node that is not in the list.
    pub(crate) fn release(&mut self, at: u32) {
        self.node_mut(at).older = self.free;
        self.free = at;
    }

    /// Puts a node next to `newer`, as less recently used; as the most recently used when that is [`NONE`].
    pub(crate) fn link_after(&mut self, newer: u32, at: u32) {
        let older = if newer == NONE { self.newest } else { self.node(newer).older };
        let node = self.node_mut(at);
        (node.newer, node.older) = (newer, older);
        *self.older_link(newer) = at;
        *self.newer_link(older) = at;
        self.len += 1;
    }

    /// Takes a node out of the list.
    pub(crate) fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = *self.node(at);
        *self.older_link(newer) = older;
        *self.newer_link(older) = newer;
        self.len -= 1;
    }

    /// Makes a node the most recently used.
    pub(crate) fn touch(&mut self, at: u32, stamp: u32) {
        self.node_mut(at).stamp = stamp;
        if self.newest != at {
            self.unlink(at);
            self.link_after(NONE, at);
        }
    }

    /// Bytes allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Box<[Node]>>() + self.chunks.len() * CHUNK * size_of::<Node>()
    }

    /// Where the link to the node older than `at` is kept.
    fn older_link(&mut self, at: u32) -> &mut u32 {
        if at == NONE { &mut self.newest } else { &mut self.node_mut(at).older }
    }

    /// Where the link to the node newer than `at` is kept.
    fn newer_link(&mut self, at: u32) -> &mut u32 {
        if at == NONE { &mut self.oldest } else { &mut self.node_mut(at).newer }
    }

    fn grow(&mut self) {
        let first = self.chunks.len() * CHUNK;
        let empty = |at: usize| Node { hash: BlockHash(0), newer: NONE, older: at as u32 + 1, parent: NONE, stamp: 0 };
        let mut chunk: Box<[Node]> = (first..first + CHUNK).map(empty).collect();
        chunk[CHUNK - 1].older = NONE;
        self.chunks.push(chunk);
        self.free = first as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(lru: &Lru) -> Vec<u64> {
        lru.iter().map(|node| node.hash.0).collect()
    }

    #[test]
    fn the_list_keeps_the_order_of_use() {
        let mut lru = Lru::default();
        let nodes: Vec<u32> = (0..3).map(|h| lru.alloc(BlockHash(h), NONE, 0)).collect();
        for &node in &nodes {
            lru.link_after(NONE, node);
        }
        assert_eq!((order(&lru), lru.oldest()), (vec![2, 1, 0], nodes[0]));
        lru.touch(nodes[0], 1);
        lru.touch(nodes[0], 2);
        assert_eq!((order(&lru), lru.oldest(), lru.len()), (vec![0, 2, 1], nodes[1], 3));
        let late = lru.alloc(BlockHash(9), NONE, 0);
        lru.link_after(nodes[1], late);
        assert_eq!((order(&lru), lru.oldest()), (vec![0, 2, 1, 9], late));
        for node in [nodes[2], late, nodes[0], nodes[1]] {
            lru.unlink(node);
            lru.release(node);
        }
        assert_eq!((order(&lru), lru.oldest(), lru.len()), (vec![], NONE, 0));
    }

    #[test]
    fn released_nodes_are_used_again_before_storage_grows() {
        let mut lru = Lru::default();
        for round in 0..10 {
            let nodes: Vec<u32> = (0..CHUNK).map(|h| lru.alloc(BlockHash(h as u64), NONE, round)).collect();
            nodes.into_iter().for_each(|node| lru.release(node));
            assert_eq!(lru.chunks.len(), 1);
        }
    }

    #[test]
    fn a_node_takes_24_bytes() {
        assert_eq!(size_of::<Node>(), 24);
    }
}
