//! What each engine is believed to hold in its KV cache: the approximate prefix index.
//!
//! Nobody tells this index what an engine caches. It assumes that an engine keeps the blocks of the prompts it was
//! sent, the most recently used ones first, up to a capacity. A prompt is a *chain* of
//! [`BlockHash`](pointsman_core::BlockHash)es, each of which stands for its block *and everything before it*; so
//! whoever holds block `i` of a chain was sent blocks `0..i` as well.
//!
//! Three ideas carry the design:
//!
//! * **Prefix-closed sets.** Recording a chain makes its root the most recently used block and its last block the
//!   least recent of the chain. The least recently used block of an endpoint is therefore never an ancestor of another
//!   one it holds, and evicting it cannot orphan a tail. What an endpoint holds is closed under "the block before" at
//!   every instant, also halfway through a write.
//! * **Matching by search, not by walk.** Because of that, the set of holders only shrinks along a chain, and two
//!   blocks with equally many holders have the same holders. [`ApproxIndex::match_chain`] finds the few places where
//!   the set shrinks by binary search: a cold chain costs one look-up, a warm one about `log2(blocks)` for every
//!   distinct depth that endpoints reach, instead of one for every block.
//! * **A hard bound.** Every endpoint has an exact LRU bound in blocks, and one (block, endpoint) pair costs at most
//!   [`BYTES_PER_ENTRY`] all in, tables and slack included.
//!
//! Locks: one per endpoint (writers of that endpoint), one per table shard (held for one look-up or one change).
//! Readers take shard locks only, one at a time, shared.
//!
//! ```
//! use pointsman_core::{BlockHash, Slot, chain, chain_seed};
//! use pointsman_prefix::{ApproxIndex, MatchScratch};
//!
//! let mut prompt = Vec::new();
//! chain(chain_seed("llama", ""), &[11, 22, 33], &mut prompt);
//!
//! let index = ApproxIndex::new(31_250);
//! index.record(Slot(0), &prompt[..2]);
//!
//! let mut matched = MatchScratch::default();
//! index.match_chain(&prompt, &mut matched);
//! assert_eq!((matched.of(Slot(0)), matched.of(Slot(1))), (2, 0));
//! ```

mod holders;
mod index;
mod lru;
mod matching;
mod table;
mod tree;

pub use index::{ApproxIndex, Recorded, Turnover};
pub use matching::MatchScratch;
pub use tree::{Branch, Tree};

/// Most bytes that one (block, endpoint) pair costs, all in, once an endpoint holds more than a few hundred blocks.
/// Beside it stands a fixed part: less than 64 KiB for the index and less than 8 KiB for every endpoint.
pub const BYTES_PER_ENTRY: usize = 64;
