//! An answer as an event stream: whatever the engine has produced since the last frame goes into the next.

use std::io;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use hyper::body::Frame;

use crate::answer::{Context, Gain, Totals, Wire};
use crate::core::Ticket;

#[derive(PartialEq, Eq)]
enum Stage {
    Start,
    Waiting,
    Open,
    Closed,
}

/// An answer on its way out. Dropped with the connection, and with it the request inside the engine.
pub(crate) struct EventStream {
    ticket: Ticket,
    context: Context,
    wire: Box<dyn Wire>,
    /// Tokens sent of each answer.
    sent: Vec<u64>,
    stage: Stage,
}

impl EventStream {
    pub(crate) fn new(ticket: Ticket, context: Context, wire: Box<dyn Wire>) -> Self {
        let sent = vec![0; context.answers.len()];
        Self { ticket, context, wire, sent, stage: Stage::Start }
    }

    /// Its frames, each made when the client has taken the one before.
    pub(crate) fn frames(self) -> impl Stream<Item = Result<Frame<Bytes>, io::Error>> + Send {
        stream::unfold(self, Self::next)
    }

    async fn next(mut self) -> Option<(Result<Frame<Bytes>, io::Error>, Self)> {
        if self.stage == Stage::Closed {
            return None;
        }
        let mut out = String::new();
        if self.stage == Stage::Start {
            self.stage = Stage::Waiting;
            self.wire.at_once(&self.context, &mut out);
        }
        while out.is_empty() {
            self.append(&mut out);
            if out.is_empty() && self.ticket.progress.changed().await.is_err() {
                self.stage = Stage::Closed;
                let gone = io::Error::new(io::ErrorKind::BrokenPipe, "the engine has stopped");
                return Some((Err(gone), self));
            }
        }
        Some((Ok(Frame::data(Bytes::from(out))), self))
    }

    /// Says everything that is new.
    fn append(&mut self, out: &mut String) {
        let progress = self.ticket.progress.borrow_and_update().clone();
        let mut complete = true;
        for (index, now) in progress.iter().enumerate() {
            let answer = &self.context.answers[index];
            let ended = now.produced >= answer.output_tokens;
            complete &= ended;
            if now.produced <= self.sent[index] {
                continue;
            }
            if self.stage == Stage::Waiting {
                self.stage = Stage::Open;
                self.wire.open(&self.context, out);
            }
            let text = answer.text.piece(self.sent[index], now.produced);
            let gain = Gain { index, text: &text, produced: now.produced, ended: ended.then_some(answer.ended) };
            self.wire.tokens(&self.context, &gain, out);
            self.sent[index] = now.produced;
        }
        if complete {
            self.wire.close(&self.context, &Totals::of(&self.context, &progress), out);
            self.stage = Stage::Closed;
        }
    }
}
