//! Numbers, `true`, `false` and `null`.

use super::super::error::Fault;
use super::super::{JsonError, MAX_NUMBER, Scalar, Sink};
use super::{Num, State, Tokenizer};

impl Tokenizer {
    pub(super) fn number(
        &mut self,
        chunk: &[u8],
        i: usize,
        num: Num,
        sink: &mut impl Sink,
    ) -> Result<usize, JsonError> {
        self.number_from(chunk, i, i, num, sink)
    }

    /// Reads a number of which `chunk[from..i]` is already checked.
    #[inline]
    pub(super) fn number_from(
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

    pub(super) fn literal(
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
