//! Finding the name in one JSON document.

use crate::json::{Container, Scalar, Sink};
use std::ops::Range;

/// Longest key that is told apart.
const KEY: usize = 8;

/// Keys that mean something at the top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Model,
    /// `response` or `message`.
    Owner,
    Other,
}

/// A sink that finds the strings that are the name, where a name stands.
#[derive(Debug)]
pub(super) struct NameScan {
    name: Box<[u8]>,
    /// Containers that are open.
    depth: usize,
    /// How many of the outermost ones are objects whose `model` counts.
    named: usize,
    key: Key,
    /// The open string, if it is a key that counts: its first bytes, and how many there are, one more than fit if it is longer.
    short: ([u8; KEY + 1], usize),
    in_key: bool,
    /// Where the open string begins, if it stands where a name stands and is the name so far; how much of the name that is.
    open: Option<usize>,
    matched: usize,
    /// Strings that are the name, quotation marks included, in order.
    pub(super) found: Vec<Range<usize>>,
}

impl NameScan {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.as_bytes().into(),
            depth: 0,
            named: 0,
            key: Key::Other,
            short: ([0; KEY + 1], 0),
            in_key: false,
            open: None,
            matched: 0,
            found: Vec::new(),
        }
    }

    /// Forgets the document, but not what was found in it.
    pub(super) fn restart(&mut self) {
        (self.depth, self.named) = (0, 0);
        self.key = Key::Other;
        self.in_key = false;
        self.open = None;
    }

    /// Where the open string begins, if it may be the name.
    pub(super) fn open(&self) -> Option<usize> {
        self.open
    }

    /// Whether the members of the innermost container count.
    fn counts(&self) -> bool {
        self.depth > 0 && self.depth == self.named
    }
}

impl Sink for NameScan {
    fn open(&mut self, container: Container, _: usize) {
        let named = match self.depth {
            0 => true,
            1 => self.counts() && self.key == Key::Owner,
            _ => false,
        };
        self.depth += 1;
        if named && container == Container::Object {
            self.named = self.depth;
        }
        self.key = Key::Other;
    }

    fn close(&mut self, _: Container, _: usize) {
        self.depth -= 1;
        self.named = self.named.min(self.depth);
    }

    fn string_start(&mut self, key: bool, at: usize) {
        if !self.counts() {
            return;
        }
        if key {
            self.in_key = true;
            self.short.1 = 0;
        } else if self.key == Key::Model {
            self.open = Some(at);
            self.matched = 0;
        }
    }

    #[inline]
    fn string_piece(&mut self, piece: &[u8]) {
        if self.in_key {
            let (short, have) = &mut self.short;
            let take = piece.len().min(short.len() - *have);
            short[*have..*have + take].copy_from_slice(&piece[..take]);
            *have += take;
        } else if self.open.is_some() {
            if self.name[self.matched..].starts_with(piece) {
                self.matched += piece.len();
            } else {
                self.open = None;
            }
        }
    }

    fn string_end(&mut self, _: bool, end: usize) {
        if std::mem::take(&mut self.in_key) {
            self.key = match &self.short.0[..self.short.1] {
                b"model" => Key::Model,
                b"response" | b"message" => Key::Owner,
                _ => Key::Other,
            };
        } else if let Some(start) = self.open.take()
            && self.matched == self.name.len()
        {
            self.found.push(start..end);
        }
    }

    fn scalar(&mut self, _: Scalar<'_>, _: Range<usize>) {}
}
