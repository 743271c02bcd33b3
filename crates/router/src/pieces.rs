//! A request body in pieces worth keeping.

use bytes::{Bytes, BytesMut};

/// Pieces shorter than this, bytes, are joined; longer ones are kept as they came, uncopied.
const SMALL: usize = 1024;
/// Joined pieces are at most this long together, bytes.
const FULL: usize = 16 * 1024;
/// What keeping one piece costs beside its bytes: its place in a list that doubles as it grows, and the allocation it lies in.
const OVERHEAD: usize = 128;

/// Joins what comes in crumbs. Kept one by one, each of them would cost its handle and hold on to the buffer it was read into, many times its own size.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    joined: BytesMut,
}

impl Pieces {
    /// Takes the next piece, and hands on, in order, what is ready to be kept. Returns what that costs beside the bytes.
    pub(crate) fn push(&mut self, piece: Bytes, last: bool, mut keep: impl FnMut(Bytes)) -> usize {
        let begins = self.joined.is_empty();
        if piece.is_empty() {
            return 0;
        }
        // A body that came whole is not copied, however short.
        if piece.len() >= SMALL || (last && begins) {
            self.finish(&mut keep);
            keep(piece);
            return OVERHEAD;
        }
        let begins = begins || self.joined.len() + piece.len() > FULL;
        if begins {
            self.finish(keep);
        }
        self.joined.extend_from_slice(&piece);
        if begins { OVERHEAD } else { 0 }
    }

    /// Hands on what is left.
    pub(crate) fn finish(&mut self, mut keep: impl FnMut(Bytes)) {
        if !self.joined.is_empty() {
            keep(std::mem::take(&mut self.joined).freeze());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pieces: &[Bytes]) -> (Vec<Bytes>, usize) {
        let (mut all, mut cost, mut joining) = (Vec::new(), 0, Pieces::default());
        for (i, piece) in pieces.iter().enumerate() {
            cost += joining.push(piece.clone(), i + 1 == pieces.len(), |piece| all.push(piece));
        }
        joining.finish(|piece| all.push(piece));
        (all, cost)
    }

    #[test]
    fn crumbs_are_joined_and_large_pieces_are_kept_uncopied_between_them() {
        let body: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
        let body = Bytes::from(body);
        let mut pieces: Vec<Bytes> = (0..40_000).map(|i| body.slice(i..i + 1)).collect();
        pieces.push(body.slice(40_000..41_024));
        pieces.extend((41_024..100_000).map(|i| body.slice(i..i + 1)));
        let (all, cost) = kept(&pieces);
        assert_eq!(all.concat(), body);
        let lengths: Vec<usize> = all.iter().map(Bytes::len).collect();
        assert_eq!(lengths, [FULL, FULL, 40_000 - 2 * FULL, 1_024, FULL, FULL, FULL, 58_976 - 3 * FULL]);
        assert_eq!(all[3].as_ptr(), pieces[40_000].as_ptr());
        assert_eq!(cost, all.len() * OVERHEAD);
    }

    #[test]
    fn a_body_in_one_piece_is_not_copied() {
        let body = Bytes::from_static(b"{}");
        let (all, cost) = kept(std::slice::from_ref(&body));
        assert_eq!((all[0].as_ptr(), all.len(), cost), (body.as_ptr(), 1, OVERHEAD));
        assert_eq!(kept(&[Bytes::new()]), (Vec::new(), 0));
    }
}
