//! The state machine.

mod numbers;
mod strings;

use super::error::Fault;
use super::{Container, JsonError, Scalar, Sink};

/// Containers inside containers; deeper is an error. What engines accept is deeper than any client needs.
pub const MAX_DEPTH: usize = 128;

/// Longest number in bytes; longer is an error. The number is the one thing that must be held until it is whole.
pub const MAX_NUMBER: usize = 1024;

/// Unescaped bytes gathered before they are handed on together.
const SCRATCH: usize = 512;

const VALUE: &str = "looking for beginning of value";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Before a value.
    Value,
    /// Behind `[`: a value or `]`.
    ValueOrEnd,
    /// Behind `{`: a key or `}`.
    KeyOrEnd,
    /// Behind `,` in an object.
    Key,
    Colon,
    /// Behind a value: `,`, a closing bracket, or at the top nothing.
    After,
    Str,
    Escape,
    /// Inside `\uXXXX`, this many digits read.
    Hex(u8),
    Number(Num),
    /// Inside a literal, this many bytes matched.
    Literal(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Num {
    Minus,
    Zero,
    Int,
    Dot,
    Frac,
    E,
    Sign,
    Exp,
}

/// Cuts JSON into events, one chunk at a time. See the [module](super).
#[derive(Debug)]
pub struct Tokenizer {
    state: State,
    depth: usize,
    /// Bit `i`: the container at depth `i` is an object.
    objects: u128,
    /// Offset of the current chunk's first byte.
    base: usize,
    key: bool,
    /// High surrogate that waits for its other half; 0 is none.
    high: u16,
    hex: u16,
    literal: &'static str,
    /// Offset of the number or literal under way.
    start: usize,
    /// The part of a number that came in earlier chunks.
    number: Vec<u8>,
    failed: Option<JsonError>,
    scratch: [u8; SCRATCH],
}

impl Default for Tokenizer {
    fn default() -> Self {
        Self::new()
    }
}

impl Tokenizer {
    /// A tokenizer for one JSON text.
    #[must_use]
    pub fn new() -> Self {
        Self::starting_at(0)
    }

    /// A tokenizer whose first byte has this offset: for a value cut out of a larger text.
    #[must_use]
    pub fn starting_at(offset: usize) -> Self {
        Self {
            state: State::Value,
            depth: 0,
            objects: 0,
            base: offset,
            key: false,
            high: 0,
            hex: 0,
            literal: "",
            start: 0,
            number: Vec::new(),
            failed: None,
            scratch: [0; SCRATCH],
        }
    }

    /// Reads one more chunk.
    ///
    /// # Errors
    /// The bytes are not JSON. The first error is returned again by every later call.
    pub fn push(&mut self, chunk: &[u8], sink: &mut impl Sink) -> Result<(), JsonError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let read = self.read(chunk, sink);
        self.base += chunk.len();
        if let Err(error) = &read {
            self.failed = Some(error.clone());
        }
        read
    }

    /// Says that no more bytes come.
    ///
    /// # Errors
    /// The bytes so far are not a complete JSON text.
    pub fn finish(&mut self, sink: &mut impl Sink) -> Result<(), JsonError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let complete = match self.state {
            State::Number(Num::Zero | Num::Int | Num::Frac | Num::Exp) if self.depth == 0 => {
                sink.scalar(Scalar::Number(&self.number), self.start..self.base);
                self.state = State::After;
                true
            }
            State::After => self.depth == 0,
            _ => false,
        };
        if complete {
            return Ok(());
        }
        let error = JsonError { offset: self.base, fault: Fault::End };
        self.failed = Some(error.clone());
        Err(error)
    }

    /// Whether the bytes so far are a complete object, array, string or literal, behind which nothing but blanks may come.
    pub(crate) fn is_complete(&self) -> bool {
        self.depth == 0 && self.state == State::After && self.failed.is_none()
    }

    fn read(&mut self, chunk: &[u8], sink: &mut impl Sink) -> Result<(), JsonError> {
        let mut i = 0;
        while i < chunk.len() {
            match self.state {
                State::Str => i = self.string(chunk, i, sink)?,
                State::Escape => i = self.escape(chunk, i, sink)?,
                State::Hex(digits) => i = self.hex_digit(chunk, i, digits, sink)?,
                State::Number(num) => i = self.number(chunk, i, num, sink)?,
                State::Literal(matched) => i = self.literal(chunk, i, usize::from(matched), sink)?,
                _ => {
                    let byte = chunk[i];
                    if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                        i = self.structure(chunk, i, byte, sink)?;
                    } else {
                        i += 1;
                    }
                }
            }
        }
        Ok(())
    }

    fn error(&self, i: usize, fault: Fault) -> JsonError {
        JsonError { offset: self.base + i, fault }
    }

    /// One byte between values. Returns where to go on.
    #[inline]
    fn structure(&mut self, chunk: &[u8], i: usize, byte: u8, sink: &mut impl Sink) -> Result<usize, JsonError> {
        let at = self.base + i;
        match self.state {
            State::ValueOrEnd if byte == b']' => self.close(Container::Array, at, sink),
            State::Value | State::ValueOrEnd => return self.value(chunk, i, byte, sink),
            State::KeyOrEnd if byte == b'}' => self.close(Container::Object, at, sink),
            State::KeyOrEnd | State::Key => {
                if byte != b'"' {
                    return Err(self.error(i, Fault::Byte(byte, "looking for beginning of object key string")));
                }
                sink.string_start(true, at);
                self.key = true;
                self.state = State::Str;
            }
            State::Colon => {
                if byte != b':' {
                    return Err(self.error(i, Fault::Byte(byte, "after object key")));
                }
                self.state = State::Value;
            }
            _ if self.depth == 0 => return Err(self.error(i, Fault::Byte(byte, "after top-level value"))),
            _ => match (self.in_object(), byte) {
                (true, b',') => self.state = State::Key,
                (false, b',') => self.state = State::Value,
                (true, b'}') => self.close(Container::Object, at, sink),
                (false, b']') => self.close(Container::Array, at, sink),
                (true, _) => return Err(self.error(i, Fault::Byte(byte, "after object key:value pair"))),
                (false, _) => return Err(self.error(i, Fault::Byte(byte, "after array element"))),
            },
        }
        Ok(i + 1)
    }

    #[inline]
    fn value(&mut self, chunk: &[u8], i: usize, byte: u8, sink: &mut impl Sink) -> Result<usize, JsonError> {
        let at = self.base + i;
        match byte {
            b'"' => {
                sink.string_start(false, at);
                self.key = false;
                self.state = State::Str;
            }
            b'{' | b'[' => {
                if self.depth == MAX_DEPTH {
                    return Err(self.error(i, Fault::Depth(byte)));
                }
                let container = if byte == b'{' { Container::Object } else { Container::Array };
                let bit = 1 << self.depth;
                (self.objects, self.state) = match container {
                    Container::Object => (self.objects | bit, State::KeyOrEnd),
                    Container::Array => (self.objects & !bit, State::ValueOrEnd),
                };
                self.depth += 1;
                sink.open(container, at);
            }
            b'-' | b'0'..=b'9' => {
                self.start = at;
                self.number.clear();
                let num = match byte {
                    b'-' => Num::Minus,
                    b'0' => Num::Zero,
                    _ => Num::Int,
                };
                return self.number_from(chunk, i, i + 1, num, sink);
            }
            b't' | b'f' | b'n' => {
                self.start = at;
                self.literal = match byte {
                    b't' => "true",
                    b'f' => "false",
                    _ => "null",
                };
                return self.literal(chunk, i + 1, 1, sink);
            }
            _ => return Err(self.error(i, Fault::Byte(byte, VALUE))),
        }
        Ok(i + 1)
    }

    fn in_object(&self) -> bool {
        self.depth > 0 && self.objects & (1 << (self.depth - 1)) != 0
    }

    fn close(&mut self, container: Container, at: usize, sink: &mut impl Sink) {
        self.depth -= 1;
        self.state = State::After;
        sink.close(container, at + 1);
    }
}

#[cfg(test)]
#[path = "../tests.rs"]
mod tests;
