//! Requests whose prompt one engine computes and another decodes (simulator 2.7).
//!
//! The prefill leg keeps its blocks when it has finished, until the other engine has read them ([`Engine::release`]) or nobody came for them
//! ([`EngineConfig::hold`](crate::EngineConfig::hold)). The decode leg takes blocks for its prompt when it comes to the head of the queue, says so
//! ([`What::Fetching`](crate::What::Fetching)), and is passed over until its owner says that all is there ([`Engine::receive`]); then it computes one
//! token like a decode.

use pointsman_core::Nanos;

use crate::PoolBlock;
use crate::engine::Engine;
use crate::sequence::Sequence;

/// Which part of a request an engine does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leg {
    /// All of it.
    #[default]
    Whole,
    /// Computes the prompt and one token, and keeps the blocks.
    Prefill,
    /// Decodes behind a prompt that another engine has computed.
    Decode,
}

/// Where the KV of a decode leg's prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kv {
    /// Nowhere else: what the cache lacks is computed.
    Here,
    /// On another engine; this one has no blocks for it yet.
    There,
    /// On its way into blocks of this engine.
    Coming,
    /// In blocks of this engine, all but the last token's.
    Come,
}

impl Kv {
    pub(crate) fn of(leg: Leg) -> Self {
        if leg == Leg::Decode { Self::There } else { Self::Here }
    }
}

/// Blocks of a finished prefill leg.
#[derive(Clone, Debug)]
pub(crate) struct HeldBlocks {
    id: u64,
    until: Nanos,
    pub(crate) blocks: Vec<PoolBlock>,
}

impl Engine {
    /// The KV that a decode leg waits for is there. False when no request of that id waits for any. Call [`Engine::advance`] with the same `now` first.
    pub fn receive(&mut self, id: u64) -> bool {
        let size = u64::from(self.config.block_size);
        let Some(sequence) = self.waiting.iter_mut().find(|s| s.id == id && s.kv == Kv::Coming) else { return false };
        sequence.kv = Kv::Come;
        sequence.computed = sequence.tokens() - 1;
        sequence.publish(size, &mut self.pool);
        self.disturb();
        true
    }

    /// Gives up the blocks that a finished prefill leg left behind. False when there are none (any more). Call [`Engine::advance`] with the same
    /// `now` first.
    pub fn release(&mut self, id: u64) -> bool {
        let Some(at) = self.held.iter().position(|held| held.id == id) else { return false };
        if let Some(held) = self.held.remove(at) {
            self.pool.release(&held.blocks);
        }
        self.disturb();
        true
    }

    /// Blocks that finished prefill legs left behind.
    #[must_use]
    pub fn held_blocks(&self) -> usize {
        self.held.iter().map(|held| held.blocks.len()).sum()
    }

    /// A request has got its last token.
    pub(crate) fn finish(&mut self, mut done: Sequence) {
        if done.leg != Leg::Prefill {
            self.leave(&done);
            return;
        }
        let held = HeldBlocks {
            id: done.id,
            until: self.clock.plus(self.config.hold),
            blocks: std::mem::take(&mut done.blocks),
        };
        self.leave(&done);
        self.held.push_back(held);
    }

    /// Gives up blocks that nobody came for.
    pub(crate) fn expire(&mut self, now: Nanos) {
        while self.held.front().is_some_and(|held| held.until <= now) {
            if let Some(held) = self.held.pop_front() {
                self.pool.release(&held.blocks);
                (self.seat_freed, self.stalled) = (true, false);
            }
        }
    }

    pub(crate) fn expiry(&self) -> Option<Nanos> {
        self.held.front().map(|held| held.until)
    }
}
