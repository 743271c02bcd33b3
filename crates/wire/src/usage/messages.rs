//! A response that is gRPC messages.

use super::UsageError;
use crate::grpc::{Frames, HEAD, Part, Schema, Walker};

/// Receives the messages of a response.
pub(super) trait Receiver: Schema {
    /// The message under way is complete.
    fn complete(&mut self);

    /// The message under way cannot be read.
    fn unreadable(&mut self);
}

/// Walks through all messages of a response. One that cannot be read is passed over.
#[derive(Debug)]
pub(super) struct Messages<P> {
    frames: Frames,
    root: P,
    /// The message under way; `None` when the rest of it cannot be read.
    walker: Option<Walker<P>>,
    count: u64,
}

impl<P: Copy + std::fmt::Debug> Messages<P> {
    pub(super) fn new(root: P) -> Self {
        Self { frames: Frames::default(), root, walker: None, count: 0 }
    }

    /// Messages seen.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Reads one more chunk.
    pub(super) fn push(&mut self, chunk: &[u8], receiver: &mut impl Receiver<Place = P>) {
        let Self { frames, root, walker, count } = self;
        frames.push(chunk, |part| match part {
            Part::Start { flags, length } => {
                *count += 1;
                *walker = (flags == 0).then(|| Walker::new(*root, HEAD as u64, length));
                if flags != 0 {
                    receiver.unreadable();
                }
            }
            Part::Piece(piece) => {
                if walker.as_mut().is_some_and(|w| w.push(piece, receiver).is_err()) {
                    *walker = None;
                    receiver.unreadable();
                }
            }
            Part::End => match walker.take().map(|mut w| w.finish(receiver)) {
                Some(Ok(())) => receiver.complete(),
                Some(Err(_)) => receiver.unreadable(),
                None => {}
            },
        });
    }

    /// Ends the response.
    pub(super) fn finish(&self) -> Result<(), UsageError> {
        if self.frames.between() { Ok(()) } else { Err(UsageError::Grpc) }
    }
}
