//! Writing protobuf fields.

use bytes::{BufMut, Bytes, BytesMut};

/// Bytes that a varint takes.
#[must_use]
pub fn length_of_varint(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// A message being written. Fields of the proto3 default are left out, as every encoder does.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: BytesMut,
}

impl Writer {
    /// A writer with room for `capacity` bytes.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self { buffer: BytesMut::with_capacity(capacity) }
    }

    /// What was written.
    #[must_use]
    pub fn finish(self) -> Bytes {
        self.buffer.freeze()
    }

    /// What was written so far.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        &self.buffer
    }

    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.buffer.put_u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.buffer.put_u8(value as u8);
    }

    fn tag(&mut self, field: u32, wire: u64) {
        self.raw(u64::from(field) << 3 | wire);
    }

    /// A number; nothing when 0.
    pub fn varint(&mut self, field: u32, value: u64) {
        if value != 0 {
            self.tag(field, 0);
            self.raw(value);
        }
    }

    /// A flag; nothing when false.
    pub fn flag(&mut self, field: u32, value: bool) {
        self.varint(field, u64::from(value));
    }

    /// A floating-point number, written even when 0: it stands in a `oneof`.
    pub fn double(&mut self, field: u32, value: f64) {
        self.tag(field, 1);
        self.buffer.put_f64_le(value);
    }

    /// Bytes or text, written even when empty.
    pub fn bytes(&mut self, field: u32, value: &[u8]) {
        self.head(field, value.len());
        self.buffer.put_slice(value);
    }

    /// The head of a field whose `length` bytes are written elsewhere.
    pub fn head(&mut self, field: u32, length: usize) {
        self.tag(field, 2);
        self.raw(length as u64);
    }

    /// A message inside a field. Most are short: their length takes one byte, and they are moved only when it takes more.
    pub fn message(&mut self, field: u32, write: impl FnOnce(&mut Self)) {
        self.tag(field, 2);
        let at = self.buffer.len();
        self.buffer.put_u8(0);
        write(self);
        let length = self.buffer.len() - at - 1;
        let bytes = length_of_varint(length as u64);
        if bytes > 1 {
            self.buffer.put_bytes(0, bytes - 1);
            self.buffer.copy_within(at + 1..at + 1 + length, at + bytes);
        }
        let mut value = length;
        for place in &mut self.buffer[at..at + bytes] {
            *place = value as u8 | 0x80;
            value >>= 7;
        }
        self.buffer[at + bytes - 1] &= 0x7f;
    }

    /// The head of a gRPC frame around what `write` writes and `beside` bytes that follow it.
    pub fn frame(&mut self, beside: usize, write: impl FnOnce(&mut Self)) {
        let at = self.buffer.len();
        self.buffer.put_bytes(0, 5);
        write(self);
        let length = self.buffer.len() - at - 5 + beside;
        self.buffer[at + 1..at + 5].copy_from_slice(&(length as u32).to_be_bytes());
    }

    /// Bytes that are no field: the rest of one whose head was written, say.
    pub fn raw_bytes(&mut self, bytes: &[u8]) {
        self.buffer.put_slice(bytes);
    }

    /// Takes what was written, and leaves the rest of the room for more.
    #[must_use]
    pub fn split(&mut self) -> Bytes {
        self.buffer.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_several_bytes_are_written_in_place() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            let payload = vec![7_u8; length];
            let mut w = Writer::default();
            w.message(1, |w| w.bytes(2, &payload));
            let mut c = crate::Message::from(w.finish()).cursor();
            assert_eq!(c.field().expect("a field").expect("one").0, 1);
            let mut inner = c.message().expect("complete");
            assert_eq!(inner.field().expect("a field").expect("one").0, 2);
            assert_eq!(inner.bytes().expect("complete"), payload, "{length}");
            assert_eq!(c.field(), Ok(None));
        }
    }

    #[test]
    fn a_frame_says_its_length() {
        let mut w = Writer::default();
        w.frame(10, |w| w.varint(1, 5));
        assert_eq!(w.finish()[..], [0, 0, 0, 0, 12, 8, 5]);
    }

    #[test]
    fn varints_are_as_long_as_they_are_said_to_be() {
        for shift in 0..64 {
            for value in [1_u64 << shift, (1_u64 << shift) - 1] {
                let mut w = Writer::default();
                w.raw(value);
                assert_eq!(w.written().len(), length_of_varint(value), "{value}");
            }
        }
    }
}
