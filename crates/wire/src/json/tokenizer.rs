//! The state machine.

use super::error::Fault;
use super::plain::{first, is_special, plain_len, specials};
use super::{Container, JsonError, Scalar, Sink};

/// Containers inside containers; deeper is an error. What engines accept is deeper than any client needs.
pub const MAX_DEPTH: usize = 128;

/// Longest number in bytes; longer is an error. The number is the one thing that must be held until it is whole.
pub const MAX_NUMBER: usize = 1024;

/// Unescaped bytes gathered before they are handed on together.
const SCRATCH: usize = 512;

/// A plain run this long is worth handing on as it is, borrowed.
const RUN: usize = 64;

const VALUE: &str = "looking for beginning of value";
const IN_STRING: &str = "in string literal";
const IN_ESCAPE: &str = "in string escape code";
const IN_HEX: &str = "in \\u hexadecimal character escape";

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

    // === strings ===

    /// Reads on inside a string.
    fn string(&mut self, chunk: &[u8], mut i: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
        if self.high != 0 && chunk[i] != b'\\' {
            self.lone_surrogate(sink);
        }
        while i < chunk.len() {
            let run = plain_len(&chunk[i..]);
            if run > 0 {
                sink.string_piece(&chunk[i..i + run]);
                i += run;
            }
            match chunk.get(i) {
                None => {}
                Some(b'"') => return Ok(self.end_string(i, sink)),
                Some(b'\\') => {
                    i = self.escapes(chunk, i, sink)?;
                    if self.state != State::Str {
                        return Ok(i);
                    }
                }
                Some(&byte) => return Err(self.error(i, Fault::Byte(byte, IN_STRING))),
            }
        }
        Ok(i)
    }

    fn end_string(&mut self, i: usize, sink: &mut impl Sink) -> usize {
        sink.string_end(self.key, self.base + i + 1);
        self.state = if self.key { State::Colon } else { State::After };
        i + 1
    }

    /// Reads a stretch of string that begins with an escape, gathering what it stands for until a long plain run begins. Near
    /// the chunk's end it leaves the rest to the byte-wise states.
    fn escapes(&mut self, chunk: &[u8], mut i: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
        let mut n = 0;
        while i < chunk.len() && is_special(chunk[i]) {
            // Room for one escape and one plain run.
            if n + 4 + RUN > SCRATCH {
                sink.string_piece(&self.scratch[..n]);
                n = 0;
            }
            if chunk[i] != b'\\' {
                break;
            }
            // A pair of surrogates is 12 bytes.
            if self.high != 0 || chunk.len() - i < 12 {
                self.state = State::Escape;
                i += 1;
                break;
            }
            let code = chunk[i + 1];
            if code == b'u' {
                let Some(unit) = hex4(&chunk[i + 2..i + 6]) else {
                    self.state = State::Escape;
                    i += 1;
                    break;
                };
                i += 6;
                if unit >= 0x800 && unit & 0xf800 != 0xd800 {
                    // Three bytes, as most scripts that clients escape, and they come in rows.
                    let three =
                        [0xe0 | (unit >> 12) as u8, 0x80 | (unit >> 6 & 0x3f) as u8, 0x80 | (unit & 0x3f) as u8];
                    self.scratch[n..n + 3].copy_from_slice(&three);
                    n += 3;
                    if chunk[i] == b'\\' {
                        continue;
                    }
                } else {
                    let mut c = char::from_u32(u32::from(unit));
                    if unit & 0xfc00 == 0xd800
                        && chunk[i..].starts_with(b"\\u")
                        && let Some(low) = hex4(&chunk[i + 2..i + 6])
                        && low & 0xfc00 == 0xdc00
                    {
                        c = Some(join(unit, low));
                        i += 6;
                    }
                    let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
                    n += c.encode_utf8(&mut self.scratch[n..n + 4]).len();
                }
            } else {
                let meant = UNESCAPED[usize::from(code)];
                if meant == 0 {
                    return Err(self.error(i + 1, Fault::Byte(code, IN_ESCAPE)));
                }
                self.scratch[n] = meant;
                n += 1;
                i += 2;
            }
            // Copy the plain run behind the escape, unless it turns out long.
            let start = n;
            while let (Some(word), true) = (chunk[i..].first_chunk::<8>(), n - start < RUN) {
                let mask = specials(u64::from_le_bytes(*word));
                self.scratch[n..n + 8].copy_from_slice(word);
                let plain = if mask == 0 { 8 } else { first(mask) };
                n += plain;
                i += plain;
                if mask != 0 {
                    break;
                }
            }
        }
        if n > 0 {
            sink.string_piece(&self.scratch[..n]);
        }
        Ok(i)
    }

    /// The byte behind a backslash.
    fn escape(&mut self, chunk: &[u8], i: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
        let code = chunk[i];
        if code == b'u' {
            self.hex = 0;
            self.state = State::Hex(0);
            return Ok(i + 1);
        }
        if self.high != 0 {
            self.lone_surrogate(sink);
        }
        let meant = UNESCAPED[usize::from(code)];
        if meant == 0 {
            return Err(self.error(i, Fault::Byte(code, IN_ESCAPE)));
        }
        sink.string_piece(&[meant]);
        self.state = State::Str;
        Ok(i + 1)
    }

    fn hex_digit(&mut self, chunk: &[u8], i: usize, digits: u8, sink: &mut impl Sink) -> Result<usize, JsonError> {
        let Some(digit) = char::from(chunk[i]).to_digit(16) else {
            return Err(self.error(i, Fault::Byte(chunk[i], IN_HEX)));
        };
        self.hex = self.hex << 4 | digit as u16;
        if digits < 3 {
            self.state = State::Hex(digits + 1);
            return Ok(i + 1);
        }
        self.state = State::Str;
        let unit = self.hex;
        if self.high != 0 && unit & 0xfc00 == 0xdc00 {
            let c = join(self.high, unit);
            self.high = 0;
            put(c, sink);
            return Ok(i + 1);
        }
        if self.high != 0 {
            self.lone_surrogate(sink);
        }
        if unit & 0xfc00 == 0xd800 {
            self.high = unit;
        } else {
            put(char::from_u32(u32::from(unit)).unwrap_or(char::REPLACEMENT_CHARACTER), sink);
        }
        Ok(i + 1)
    }

    fn lone_surrogate(&mut self, sink: &mut impl Sink) {
        self.high = 0;
        put(char::REPLACEMENT_CHARACTER, sink);
    }

    // === numbers and literals ===

    fn number(&mut self, chunk: &[u8], i: usize, num: Num, sink: &mut impl Sink) -> Result<usize, JsonError> {
        self.number_from(chunk, i, i, num, sink)
    }

    /// Reads a number of which `chunk[from..i]` is already checked.
    #[inline]
    fn number_from(
        &mut self,
        chunk: &[u8],
        from: usize,
        mut i: usize,
        mut num: Num,
        sink: &mut impl Sink,
    ) -> Result<usize, JsonError> {
        while let Some(&byte) = chunk.get(i) {
            num = match (num, byte) {
                (Num::Int, b'0'..=b'9') => Num::Int,
                (Num::Minus, b'0') => Num::Zero,
                (Num::Minus, b'1'..=b'9') => Num::Int,
                (Num::Zero | Num::Int, b'.') => Num::Dot,
                (Num::Dot | Num::Frac, b'0'..=b'9') => Num::Frac,
                (Num::Zero | Num::Int | Num::Frac, b'e' | b'E') => Num::E,
                (Num::E, b'+' | b'-') => Num::Sign,
                (Num::E | Num::Sign | Num::Exp, b'0'..=b'9') => Num::Exp,
                (Num::Minus, _) => return Err(self.error(i, Fault::Byte(byte, "in numeric literal"))),
                (Num::Dot, _) => return Err(self.error(i, Fault::Byte(byte, "after decimal point in numeric literal"))),
                (Num::E | Num::Sign, _) => {
                    return Err(self.error(i, Fault::Byte(byte, "in exponent of numeric literal")));
                }
                (Num::Zero | Num::Int | Num::Frac | Num::Exp, _) => break,
            };
            i += 1;
            if self.base + i - self.start > MAX_NUMBER {
                return Err(self.error(i - 1, Fault::LongNumber));
            }
        }
        if i == chunk.len() {
            self.number.extend_from_slice(&chunk[from..i]);
            self.state = State::Number(num);
            return Ok(i);
        }
        self.state = State::After;
        let span = self.start..self.base + i;
        if self.number.is_empty() {
            sink.scalar(Scalar::Number(&chunk[from..i]), span);
        } else {
            self.number.extend_from_slice(&chunk[from..i]);
            sink.scalar(Scalar::Number(&self.number), span);
        }
        Ok(i)
    }

    fn literal(
        &mut self,
        chunk: &[u8],
        mut i: usize,
        mut matched: usize,
        sink: &mut impl Sink,
    ) -> Result<usize, JsonError> {
        let word = self.literal;
        while matched < word.len() {
            let Some(&byte) = chunk.get(i) else {
                self.state = State::Literal(matched as u8);
                return Ok(i);
            };
            let expected = word.as_bytes()[matched];
            if byte != expected {
                return Err(self.error(i, Fault::Literal(byte, word, expected)));
            }
            matched += 1;
            i += 1;
        }
        self.state = State::After;
        let scalar = match word {
            "true" => Scalar::Bool(true),
            "false" => Scalar::Bool(false),
            _ => Scalar::Null,
        };
        sink.scalar(scalar, self.start..self.base + i);
        Ok(i)
    }
}

/// What a one-letter escape stands for; 0 where there is none.
const UNESCAPED: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'b' as usize] = 8;
    table[b'f' as usize] = 12;
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table
};

/// Values of hexadecimal digits; 0xff where there is none.
const HEX: [u8; 256] = {
    let mut table = [0xff; 256];
    let mut i = 0u8;
    while i < 10 {
        table[(b'0' + i) as usize] = i;
        i += 1;
    }
    let mut i = 0u8;
    while i < 6 {
        table[(b'a' + i) as usize] = 10 + i;
        table[(b'A' + i) as usize] = 10 + i;
        i += 1;
    }
    table
};

#[inline]
fn hex4(digits: &[u8]) -> Option<u16> {
    let &[a, b, c, d] = digits.first_chunk::<4>()?;
    let [a, b, c, d] = [a, b, c, d].map(|x| u16::from(HEX[usize::from(x)]));
    if (a | b | c | d) > 0xf { None } else { Some(a << 12 | b << 8 | c << 4 | d) }
}

fn join(high: u16, low: u16) -> char {
    let c = 0x1_0000 + ((u32::from(high) & 0x3ff) << 10 | u32::from(low) & 0x3ff);
    char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn put(c: char, sink: &mut impl Sink) {
    sink.string_piece(c.encode_utf8(&mut [0; 4]).as_bytes());
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
