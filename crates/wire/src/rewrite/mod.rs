//! The model's name in responses: where the engine names the model that a request was rewritten to, the client reads the one it asked for
//! (request-lifecycle 1.6).
//!
//! A [`ModelRewriter`] sees a response in the chunks it comes in and hands them on, borrowed and at once. Only a string that stands where the
//! name stands, and that is the name so far, is held back until it is known to be all of it. The name is compared as JSON means it, whatever
//! escapes and blanks it comes with, and replaced in three places only: `model` at the top, in `response`, and in `message`, of a document or
//! of each event's data.

mod scan;

use crate::json::Tokenizer;
use bytes::Bytes;
use memchr::memchr2;
use scan::NameScan;

/// What the lines of an event stream begin with that are looked into.
const DATA: &[u8] = b"data:";

/// Puts one name in another's place in a response. See the [module](self).
#[derive(Debug)]
pub struct ModelRewriter {
    replacement: Bytes,
    tokenizer: Tokenizer,
    scan: NameScan,
    format: Format,
    /// Bytes pushed so far.
    at: usize,
    /// The beginning of a string that may be the name, not handed on yet.
    held: Vec<Bytes>,
}

/// What the bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// One JSON document.
    Document,
    /// What is no JSON, or no longer: it passes.
    Opaque,
    /// An event stream, inside a line.
    Events(Line),
}

/// How far a line of an event stream is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// That many bytes of [`DATA`] were there, and nothing else.
    Start(usize),
    Data,
    Other,
}

impl ModelRewriter {
    /// For a plain response that names the model `target` where the client asked for `incoming`: an event stream, or one JSON document.
    #[must_use]
    pub fn new(target: &str, incoming: &str, events: bool) -> Self {
        Self {
            replacement: serde_json::Value::from(incoming).to_string().into(),
            tokenizer: Tokenizer::new(),
            scan: NameScan::new(target),
            format: if events { Format::Events(Line::Start(0)) } else { Format::Document },
            at: 0,
            held: Vec::new(),
        }
    }

    /// Takes the next chunk, and hands on what can be: slices of what was pushed, never empty, and the other name. What is held back lies inside
    /// one string, is no longer than six times the name and a few bytes, and never the end of a line.
    pub fn push(&mut self, chunk: Bytes, out: &mut impl FnMut(Bytes)) {
        if chunk.is_empty() {
            return;
        }
        match self.format {
            Format::Opaque => return out(chunk),
            Format::Document => self.document(&chunk),
            Format::Events(line) => self.events(&chunk, line),
        }
        let base = self.at;
        self.at += chunk.len();
        let open = self.scan.open();
        if self.scan.found.first().is_some_and(|span| span.start < base) {
            self.held.clear();
        } else if open.is_none_or(|start| start >= base) {
            self.held.drain(..).for_each(&mut *out);
        }
        let mut from = 0;
        for span in self.scan.found.drain(..) {
            hand_on(&chunk, from..span.start.saturating_sub(base), out);
            out(self.replacement.clone());
            from = span.end - base;
        }
        let until = open.map_or(chunk.len(), |start| start.saturating_sub(base));
        hand_on(&chunk, from..until, out);
        if until < chunk.len() {
            self.held.push(if until == 0 { chunk } else { chunk.slice(until..) });
        }
    }

    /// Ends the response, complete or not: hands on what was held back. What is pushed after that passes.
    pub fn finish(&mut self, out: &mut impl FnMut(Bytes)) {
        self.held.drain(..).for_each(out);
        self.scan.restart();
        self.format = Format::Opaque;
    }

    fn document(&mut self, chunk: &[u8]) {
        if self.tokenizer.push(chunk, &mut self.scan).is_err() {
            self.scan.restart();
            self.format = Format::Opaque;
        }
    }

    fn events(&mut self, chunk: &[u8], mut line: Line) {
        let mut i = 0;
        while let Some(&byte) = chunk.get(i) {
            if let Line::Start(matched) = line {
                if byte == DATA[matched] {
                    i += 1;
                    line = Line::Start(matched + 1);
                    if matched + 1 == DATA.len() {
                        line = Line::Data;
                        self.scan.restart();
                        self.tokenizer = Tokenizer::starting_at(self.at + i);
                    }
                    continue;
                }
                line = Line::Other;
            }
            let rest = &chunk[i..];
            let end = memchr2(b'\n', b'\r', rest);
            let text = &rest[..end.unwrap_or(rest.len())];
            if line == Line::Data && self.tokenizer.push(text, &mut self.scan).is_err() {
                self.scan.restart();
                line = Line::Other;
            }
            i += text.len();
            if end.is_some() {
                self.scan.restart();
                line = Line::Start(0);
                i += 1;
            }
        }
        self.format = Format::Events(line);
    }
}

/// Hands on a part of a chunk, if there is any.
fn hand_on(chunk: &Bytes, range: std::ops::Range<usize>, out: &mut impl FnMut(Bytes)) {
    if range == (0..chunk.len()) {
        out(chunk.clone());
    } else if !range.is_empty() {
        out(chunk.slice(range));
    }
}

#[cfg(test)]
mod tests;
