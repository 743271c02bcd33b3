//! Cutting a body into messages.

/// Bytes before a message: flags, and its length in network order.
pub(crate) const HEAD: usize = 5;

/// What comes out of a body, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    /// A message of `length` bytes begins. With any flag set it is not to be read as it is: the only one that gRPC knows says that the message
    /// is compressed.
    Start {
        /// Flags.
        flags: u8,
        /// Bytes of the message.
        length: u32,
    },
    /// Some more bytes of the open message, never empty.
    Piece(&'a [u8]),
    /// The open message is complete.
    End,
}

/// The messages of one body.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    head: [u8; HEAD],
    /// Bytes of `head` that are there.
    have: usize,
    /// Bytes of the open message that have not come.
    left: usize,
}

impl Frames {
    /// Cuts one more chunk.
    pub(crate) fn push<'a>(&mut self, mut chunk: &'a [u8], mut on: impl FnMut(Part<'a>)) {
        loop {
            if self.have < HEAD {
                let (part, rest) = chunk.split_at(chunk.len().min(HEAD - self.have));
                self.head[self.have..self.have + part.len()].copy_from_slice(part);
                self.have += part.len();
                chunk = rest;
                if self.have < HEAD {
                    return;
                }
                let [flags, length @ ..] = self.head;
                let length = u32::from_be_bytes(length);
                self.left = length as usize;
                on(Part::Start { flags, length });
            }
            let (piece, rest) = chunk.split_at(chunk.len().min(self.left));
            if !piece.is_empty() {
                on(Part::Piece(piece));
            }
            self.left -= piece.len();
            chunk = rest;
            if self.left > 0 {
                return;
            }
            on(Part::End);
            self.have = 0;
        }
    }

    /// Whether the body may end here: between two messages.
    pub(crate) fn between(&self) -> bool {
        self.have == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Messages with their flags, and whether the last one is complete.
    fn cut<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> (Vec<(u8, Vec<u8>)>, bool) {
        let (mut frames, mut messages, mut ends) = (Frames::default(), Vec::new(), 0);
        for chunk in chunks {
            frames.push(chunk, |part| match part {
                Part::Start { flags, .. } => messages.push((flags, Vec::new())),
                Part::Piece(piece) => messages.last_mut().expect("begun").1.extend_from_slice(piece),
                Part::End => ends += 1,
            });
        }
        assert!(messages.len() - ends <= 1);
        (messages, frames.between())
    }

    #[test]
    fn messages_are_cut_alike_however_the_bytes_come() {
        let body = b"\0\0\0\0\x02ab\0\0\0\0\0\x01\0\0\0\x03cde";
        let want = (vec![(0, b"ab".to_vec()), (0, vec![]), (1, b"cde".to_vec())], true);
        for size in 1..=body.len() {
            assert_eq!(cut(body.chunks(size)), want, "{size}");
        }
    }

    #[test]
    fn a_body_that_ends_inside_a_head_or_a_message_is_not_complete() {
        let body = b"\0\0\0\0\x02ab";
        for end in 1..body.len() {
            assert!(!cut([&body[..end]]).1, "{end}");
        }
        assert!(cut([&body[..0]]).1);
    }
}
