//! One message as it arrived, and protobuf fields read from it.

use bytes::{Buf, Bytes};

use crate::Rope;

/// Slices of a message that are kept without a list: most messages lie in one.
#[derive(Clone, Debug, Default)]
pub struct Message {
    pub(crate) rope: Rope,
}

impl Message {
    /// Its bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rope.len()
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rope.is_empty()
    }

    /// The slices it lies in, in order.
    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        self.rope.pieces()
    }

    /// Starts reading its fields.
    #[must_use]
    pub fn cursor(self) -> Cursor {
        Cursor { rope: self.rope }
    }
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        let mut rope = Rope::default();
        rope.push(bytes);
        Self { rope }
    }
}

impl FromIterator<Bytes> for Message {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Self {
        let mut rope = Rope::default();
        pieces.into_iter().for_each(|piece| rope.push(piece));
        Self { rope }
    }
}

/// What a field's bytes mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireType {
    /// A number of variable length.
    Varint,
    /// Eight bytes.
    Fixed64,
    /// A length, and that many bytes.
    Length,
    /// Four bytes.
    Fixed32,
}

/// A message that is not protobuf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireError;

impl std::fmt::Display for WireError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("not a well-formed protobuf message")
    }
}

impl std::error::Error for WireError {}

/// Reads fields one after the other. Byte fields come as the slices they lie in.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    rope: Rope,
}

impl Cursor {
    /// Number and type of the next field; `None` at the end.
    ///
    /// # Errors
    /// When the bytes are not a field.
    pub fn field(&mut self) -> Result<Option<(u32, WireType)>, WireError> {
        field(&mut self.rope)
    }

    /// A varint.
    ///
    /// # Errors
    /// When it has no end within ten bytes.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        varint(&mut self.rope)
    }

    /// An eight-byte number.
    ///
    /// # Errors
    /// When there are fewer bytes.
    pub fn fixed64(&mut self) -> Result<u64, WireError> {
        if self.rope.remaining() < 8 { Err(WireError) } else { Ok(self.rope.get_u64_le()) }
    }

    /// The bytes of a length field in one slice; copied only when they lie in several.
    ///
    /// # Errors
    /// When there are fewer bytes than it says.
    pub fn bytes(&mut self) -> Result<Bytes, WireError> {
        let length = length(&mut self.rope)?;
        Ok(self.rope.copy_to_bytes(length))
    }

    /// The bytes of a length field, slice by slice, never copied.
    ///
    /// # Errors
    /// When there are fewer bytes than it says.
    pub fn pieces(&mut self, mut take: impl FnMut(Bytes)) -> Result<(), WireError> {
        let mut left = length(&mut self.rope)?;
        while left > 0 {
            let n = self.rope.chunk().len().min(left);
            take(self.rope.copy_to_bytes(n));
            left -= n;
        }
        Ok(())
    }

    /// The message inside a length field.
    ///
    /// # Errors
    /// When there are fewer bytes than it says.
    pub fn message(&mut self) -> Result<Self, WireError> {
        let mut rope = Rope::default();
        self.pieces(|piece| rope.push(piece))?;
        Ok(Self { rope })
    }

    /// Passes over a field.
    ///
    /// # Errors
    /// When there are fewer bytes than it needs.
    pub fn skip(&mut self, wire: WireType) -> Result<(), WireError> {
        skip(&mut self.rope, wire)
    }
}

/// Reads fields of a message that lies in one slice.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// Number and type of the next field; `None` at the end.
    ///
    /// # Errors
    /// When the bytes are not a field.
    pub fn field(&mut self) -> Result<Option<(u32, WireType)>, WireError> {
        field(&mut self.0)
    }

    /// A varint.
    ///
    /// # Errors
    /// When it has no end within ten bytes.
    pub fn varint(&mut self) -> Result<u64, WireError> {
        varint(&mut self.0)
    }

    /// The bytes of a length field.
    ///
    /// # Errors
    /// When there are fewer bytes than it says.
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = length(&mut self.0)?;
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(taken)
    }

    /// Passes over a field.
    ///
    /// # Errors
    /// When there are fewer bytes than it needs.
    pub fn skip(&mut self, wire: WireType) -> Result<(), WireError> {
        skip(&mut self.0, wire)
    }
}

/// Number and type of the next field; `None` at the end.
fn field(from: &mut impl Buf) -> Result<Option<(u32, WireType)>, WireError> {
    if !from.has_remaining() {
        return Ok(None);
    }
    let tag = u32::try_from(varint(from)?).map_err(|_| WireError)?;
    let wire = match tag & 7 {
        0 => WireType::Varint,
        1 => WireType::Fixed64,
        2 => WireType::Length,
        5 => WireType::Fixed32,
        _ => return Err(WireError),
    };
    if tag >> 3 == 0 { Err(WireError) } else { Ok(Some((tag >> 3, wire))) }
}

fn varint(from: &mut impl Buf) -> Result<u64, WireError> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let Some(byte) = from.chunk().first().copied() else { return Err(WireError) };
        from.advance(1);
        if shift == 63 && byte > 1 {
            return Err(WireError);
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(WireError)
}

/// The length of a field, as many bytes as are there at most.
fn length(from: &mut impl Buf) -> Result<usize, WireError> {
    let length = usize::try_from(varint(from)?).map_err(|_| WireError)?;
    if length > from.remaining() { Err(WireError) } else { Ok(length) }
}

fn skip(from: &mut impl Buf, wire: WireType) -> Result<(), WireError> {
    let length = match wire {
        WireType::Varint => return varint(from).map(drop),
        WireType::Fixed64 => 8,
        WireType::Fixed32 => 4,
        WireType::Length => length(from)?,
    };
    if length > from.remaining() {
        return Err(WireError);
    }
    from.advance(length);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;
    use proptest::prelude::*;

    #[test]
    fn fields_are_read_back_across_any_cut() {
        let mut w = Writer::default();
        w.varint(1, 300);
        w.bytes(2, b"hello world");
        w.double(3, 0.5);
        w.varint(90, u64::MAX);
        let all = w.finish();
        for cut in 0..=all.len() {
            let message: Message = [all.slice(..cut), all.slice(cut..)].into_iter().collect();
            let mut c = message.cursor();
            assert_eq!(c.field(), Ok(Some((1, WireType::Varint))));
            assert_eq!(c.varint(), Ok(300));
            assert_eq!(c.field(), Ok(Some((2, WireType::Length))));
            let mut text = Vec::new();
            c.clone().pieces(|p| text.extend_from_slice(&p)).expect("complete");
            assert_eq!(text, b"hello world");
            assert_eq!(c.bytes().as_deref(), Ok(&b"hello world"[..]));
            assert_eq!(c.field(), Ok(Some((3, WireType::Fixed64))));
            assert_eq!(c.fixed64().map(f64::from_bits), Ok(0.5));
            assert_eq!(c.field(), Ok(Some((90, WireType::Varint))));
            assert_eq!(c.varint(), Ok(u64::MAX));
            assert_eq!(c.field(), Ok(None));
        }
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error() {
        let mut c = Message::from(Bytes::from_static(&[0x0a, 5, 1, 2])).cursor();
        assert_eq!(c.field(), Ok(Some((1, WireType::Length))));
        assert_eq!(c.bytes(), Err(WireError));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let mut c = Message::from(Bytes::from(bytes)).cursor();
            while let Ok(Some((_, wire))) = c.field() {
                if c.skip(wire).is_err() {
                    break;
                }
            }
        }
    }
}
