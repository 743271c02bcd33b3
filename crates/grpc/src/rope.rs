//! Bytes to send, in pieces that are not copied together.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// A sequence of byte slices that reads as one. Most have one slice only, and need no list then.
#[derive(Clone, Debug, Default)]
pub struct Rope {
    /// Empty only when all is.
    first: Bytes,
    rest: VecDeque<Bytes>,
    length: usize,
}

impl Rope {
    /// Appends a slice, by reference.
    pub fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        if self.length == 0 {
            self.length = piece.len();
            self.first = piece;
        } else {
            self.length += piece.len();
            self.rest.push_back(piece);
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Its pieces, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> + Clone {
        Some(&self.first).into_iter().filter(|first| !first.is_empty()).chain(&self.rest)
    }
}

impl Buf for Rope {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let mut n = 0;
        for (slot, piece) in into.iter_mut().zip(self.pieces()) {
            *slot = IoSlice::new(piece);
            n += 1;
        }
        n
    }

    fn advance(&mut self, mut count: usize) {
        assert!(count <= self.length, "advanced past the end");
        self.length -= count;
        while count >= self.first.len() && !self.first.is_empty() {
            count -= self.first.len();
            self.first = self.rest.pop_front().unwrap_or_default();
        }
        self.first.advance(count);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        if count <= self.first.len() {
            let taken = self.first.split_to(count);
            self.length -= count;
            if self.first.is_empty() {
                self.first = self.rest.pop_front().unwrap_or_default();
            }
            return taken;
        }
        let mut all = bytes::BytesMut::with_capacity(count);
        let mut left = count;
        while left > 0 {
            let n = self.chunk().len().min(left);
            assert!(n > 0, "copied past the end");
            all.extend_from_slice(&self.chunk()[..n]);
            self.advance(n);
            left -= n;
        }
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_reads_as_one_sequence(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..9), steps in prop::collection::vec((0usize..12, any::<bool>()), 0..20)) {
            let mut flat: VecDeque<u8> = pieces.concat().into();
            let mut rope = Rope::default();
            pieces.into_iter().for_each(|p| rope.push(p.into()));
            for (n, take) in steps {
                let n = n.min(flat.len());
                let expected: Vec<u8> = flat.drain(..n).collect();
                if take {
                    prop_assert_eq!(&rope.copy_to_bytes(n)[..], &expected[..]);
                } else {
                    rope.advance(n);
                }
                prop_assert_eq!(rope.remaining(), flat.len());
                prop_assert_eq!(rope.is_empty(), flat.is_empty());
                let joined: Vec<u8> = rope.pieces().flatten().copied().collect();
                prop_assert_eq!(joined, flat.iter().copied().collect::<Vec<u8>>());
            }
        }
    }
}
