//! An incremental JSON tokenizer: bytes are pushed in chunks of any size, events come out as soon as they are certain.
//!
//! Strict in what it accepts (RFC 8259: no control characters in strings, no unknown escapes, nothing after the value), lenient
//! in one point only: bytes that are not UTF-8 pass through strings as they are. The events are the same however the bytes were
//! cut into chunks, but for how a string is divided into pieces.
//!
//! Strings come unescaped. Where no escape occurs the pieces are borrowed from the chunk, so that a long prompt is never copied.

mod error;
mod plain;
mod tokenizer;

pub use error::JsonError;
pub(crate) use plain::plain_len;
pub use tokenizer::{MAX_DEPTH, MAX_NUMBER, Tokenizer};

use std::ops::Range;

/// Object or array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// `{ }`
    Object,
    /// `[ ]`
    Array,
}

/// A value without parts, strings apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// A number as it was written.
    Number(&'a [u8]),
    /// `true` or `false`.
    Bool(bool),
    /// `null`
    Null,
}

/// Receives the events of a [`Tokenizer`]. Offsets count bytes from the first byte ever pushed.
pub trait Sink {
    /// A container opens at byte `at`.
    fn open(&mut self, container: Container, at: usize);
    /// The innermost container closed; `end` is the offset behind its bracket.
    fn close(&mut self, container: Container, end: usize);
    /// A string opens at byte `at` (its quotation mark): a key or a value.
    fn string_start(&mut self, key: bool, at: usize);
    /// Some more unescaped bytes of the open string, never empty.
    fn string_piece(&mut self, piece: &[u8]);
    /// The open string ended; `end` is the offset behind its quotation mark.
    fn string_end(&mut self, key: bool, end: usize);
    /// A number, boolean or null at `span`.
    fn scalar(&mut self, scalar: Scalar<'_>, span: Range<usize>);
}
