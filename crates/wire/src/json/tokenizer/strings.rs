//! Strings and their escapes.

use super::super::error::Fault;
use super::super::plain::{first, is_special, plain_len, specials};
use super::super::{JsonError, Sink};
use super::{SCRATCH, State, Tokenizer};

/// A plain run this long is worth handing on as it is, borrowed.
const RUN: usize = 64;

const IN_STRING: &str = "in string literal";
const IN_ESCAPE: &str = "in string escape code";
const IN_HEX: &str = "in \\u hexadecimal character escape";

impl Tokenizer {
    /// Reads on inside a string.
    pub(super) fn string(&mut self, chunk: &[u8], mut i: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
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

    pub(super) fn end_string(&mut self, i: usize, sink: &mut impl Sink) -> usize {
        sink.string_end(self.key, self.base + i + 1);
        self.state = if self.key { State::Colon } else { State::After };
        i + 1
    }

    /// Reads a stretch of string that begins with an escape, gathering what it stands for until a long plain run begins. Near
    /// the chunk's end it leaves the rest to the byte-wise states.
    pub(super) fn escapes(&mut self, chunk: &[u8], mut i: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
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
    pub(super) fn escape(&mut self, chunk: &[u8], i: usize, sink: &mut impl Sink) -> Result<usize, JsonError> {
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

    pub(super) fn hex_digit(
        &mut self,
        chunk: &[u8],
        i: usize,
        digits: u8,
        sink: &mut impl Sink,
    ) -> Result<usize, JsonError> {
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

    pub(super) fn lone_surrogate(&mut self, sink: &mut impl Sink) {
        self.high = 0;
        put(char::REPLACEMENT_CHARACTER, sink);
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
