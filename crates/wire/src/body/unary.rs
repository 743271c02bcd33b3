//! The one message of a gRPC request.

use super::BodyError;
use crate::grpc::{Frames, HEAD, Malformed, Part, Schema, Walker};

/// Walks through the first message of a body. What comes behind it is not looked at.
#[derive(Debug)]
pub(super) struct Unary<P> {
    frames: Frames,
    root: P,
    message: Message<P>,
}

#[derive(Debug)]
enum Message<P> {
    Coming,
    Open(Walker<P>),
    Complete,
    Bad,
}

impl<P: Copy + std::fmt::Debug> Unary<P> {
    pub(super) fn new(root: P) -> Self {
        Self { frames: Frames::default(), root, message: Message::Coming }
    }

    pub(super) fn push(&mut self, chunk: &[u8], schema: &mut impl Schema<Place = P>) {
        if matches!(self.message, Message::Complete | Message::Bad) {
            return;
        }
        let Self { frames, root, message } = self;
        frames.push(chunk, |part| {
            let read = match (&mut *message, part) {
                (Message::Coming, Part::Start { flags: 0, length }) => {
                    *message = Message::Open(Walker::new(*root, HEAD as u64, length));
                    Ok(())
                }
                (Message::Coming, Part::Start { .. }) => Err(Malformed),
                (Message::Open(walker), Part::Piece(piece)) => walker.push(piece, schema),
                (Message::Open(walker), Part::End) => walker.finish(schema).map(|()| *message = Message::Complete),
                _ => Ok(()),
            };
            if read.is_err() {
                *message = Message::Bad;
            }
        });
    }

    /// # Errors
    /// There is no whole, plain, readable message.
    pub(super) fn finish(&self) -> Result<(), BodyError> {
        if matches!(self.message, Message::Complete) { Ok(()) } else { Err(BodyError::Grpc) }
    }
}
