//! What waits to be passed on while the model's name in a response is rewritten.

use std::collections::VecDeque;
use std::error::Error;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use pointsman_router::Routed;

/// Pieces of one chunk that are no longer than this together go out as one: an event then reaches its client as it left the engine, and copying it
/// costs less than two more frames.
const SMALL: usize = 4 << 10;

/// What goes to the client: a frame, or the end of a broken response.
pub(crate) type Passed = Result<Frame<Bytes>, Box<dyn Error + Send + Sync>>;

/// Frames that are ready for the client.
#[derive(Default)]
pub(crate) struct Renaming {
    ready: VecDeque<Passed>,
    pieces: Vec<Bytes>,
}

impl Renaming {
    /// The next frame, if one is ready.
    pub(crate) fn next(&mut self) -> Option<Passed> {
        self.ready.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Takes a chunk of the response's body; with `end` there is no other.
    pub(crate) fn chunk(&mut self, routed: &mut Routed, chunk: Bytes, end: bool) {
        let Self { ready, pieces } = self;
        routed.rewrite_response(chunk, end, &mut |piece| pieces.push(piece));
        let total: usize = pieces.iter().map(Bytes::len).sum();
        if pieces.len() > 1 && total <= SMALL {
            let mut joined = BytesMut::with_capacity(total);
            pieces.drain(..).for_each(|piece| joined.extend_from_slice(&piece));
            pieces.push(joined.freeze());
        }
        ready.extend(pieces.drain(..).map(|piece| Ok(Frame::data(piece))));
    }

    /// Takes what is not rewritten: trailers, or how the response broke.
    pub(crate) fn then(&mut self, passed: Passed) {
        self.ready.push_back(passed);
    }
}
