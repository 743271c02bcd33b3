//! A request body that is already here.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// Hands out the chunks of a body as they are; copying it for another attempt copies no bytes.
#[derive(Debug)]
pub(crate) struct Kept {
    chunks: std::vec::IntoIter<Bytes>,
    left: u64,
}

impl Kept {
    /// The body of these chunks.
    pub(crate) fn new(chunks: &[Bytes]) -> Self {
        let chunks: Vec<Bytes> = chunks.iter().filter(|c| !c.is_empty()).cloned().collect();
        let left = chunks.iter().map(|c| c.len() as u64).sum();
        Self { chunks: chunks.into_iter(), left }
    }
}

impl Body for Kept {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.chunks.next();
        self.left -= chunk.as_ref().map_or(0, |c| c.len() as u64);
        Poll::Ready(chunk.map(|c| Ok(Frame::data(c))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
