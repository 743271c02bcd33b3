//! The fields of one protobuf message, while it arrives.

/// Messages inside messages; what a schema opens deeper than that is skipped.
const DEPTH: usize = 8;

/// What a field that has a length is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<P> {
    /// Nothing that is wanted.
    Skip,
    /// A message, whose fields are told in turn.
    Message(P),
    /// Bytes or a string.
    Bytes(P),
    /// Packed varints.
    Packed(P),
}

/// Says what the fields of a message are, and receives those that are wanted.
///
/// Fields come in the order sent, repeated ones each time. Of a field that may occur once the last one counts; that is the receiver's to see
/// to.
pub(crate) trait Schema {
    /// Where a field stands.
    type Place: Copy + std::fmt::Debug;

    /// Field `number` of the message at `parent` is `length` bytes from offset `at`. What is it?
    fn field(&mut self, parent: Self::Place, number: u32, at: u64, length: u64) -> Field<Self::Place>;

    /// Field `number` of the message at `parent` is this integer, or boolean.
    fn integer(&mut self, parent: Self::Place, number: u32, value: u64);

    /// One of the packed integers at `place`.
    fn packed(&mut self, _place: Self::Place, _value: u64) {}

    /// Some more of the bytes at `place`, never empty.
    fn bytes(&mut self, _place: Self::Place, _piece: &[u8]) {}

    /// The message, the bytes or the packed integers at `place` ended.
    fn end(&mut self, _place: Self::Place) {}
}

/// The bytes are no protobuf message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What comes next.
#[derive(Clone, Copy, Debug)]
enum State<P> {
    Key,
    Integer(u32),
    Length(u32),
    /// Bytes up to an offset.
    Skip(u64),
    Bytes(P, u64),
    Packed(P, u64),
}

/// Goes through one message, piece by piece.
#[derive(Debug)]
pub(crate) struct Walker<P> {
    root: P,
    /// Open messages inside the outermost, with the offset each ends at.
    open: [Option<(P, u64)>; DEPTH],
    depth: usize,
    state: State<P>,
    at: u64,
    end: u64,
    /// The varint under way: its bits so far, and how many.
    varint: u64,
    bits: u32,
}

impl<P: Copy + std::fmt::Debug> Walker<P> {
    /// For a message of `length` bytes that begins at offset `at` of whatever it is part of.
    pub(crate) fn new(root: P, at: u64, length: u32) -> Self {
        Self {
            root,
            open: [None; DEPTH],
            depth: 0,
            state: State::Key,
            at,
            end: at + u64::from(length),
            varint: 0,
            bits: 0,
        }
    }

    /// Goes through the next piece. After an error it is not to be used again.
    ///
    /// # Errors
    /// The bytes are no message.
    pub(crate) fn push(&mut self, piece: &[u8], schema: &mut impl Schema<Place = P>) -> Result<(), Malformed> {
        let mut rest = piece;
        loop {
            self.ends(schema)?;
            if rest.is_empty() {
                return Ok(());
            }
            // Nothing reaches beyond the message it stands in.
            let limit = match self.state {
                State::Skip(end) | State::Bytes(_, end) | State::Packed(_, end) => end,
                State::Key | State::Integer(_) | State::Length(_) => self.limit(),
            };
            let here = &rest[..(limit - self.at).min(rest.len() as u64) as usize];
            if here.is_empty() {
                return Err(Malformed);
            }
            let read = match self.state {
                State::Skip(_) => here.len(),
                State::Bytes(place, _) => {
                    schema.bytes(place, here);
                    here.len()
                }
                State::Packed(place, _) => self.packed(place, here, schema)?,
                State::Key | State::Integer(_) | State::Length(_) => self.number(here, schema)?,
            };
            self.at += read as u64;
            rest = &rest[read..];
        }
    }

    /// Says that no more bytes come.
    ///
    /// # Errors
    /// The message is not complete.
    pub(crate) fn finish(&mut self, schema: &mut impl Schema<Place = P>) -> Result<(), Malformed> {
        self.ends(schema)?;
        let complete = matches!(self.state, State::Key) && self.bits == 0 && self.depth == 0 && self.at == self.end;
        if complete { Ok(()) } else { Err(Malformed) }
    }

    /// Where the innermost message ends.
    fn limit(&self) -> u64 {
        self.innermost().map_or(self.end, |(_, end)| end)
    }

    fn innermost(&self) -> Option<(P, u64)> {
        self.depth.checked_sub(1).and_then(|top| self.open[top])
    }

    fn parent(&self) -> P {
        self.innermost().map_or(self.root, |(place, _)| place)
    }

    /// Closes what ends here.
    fn ends(&mut self, schema: &mut impl Schema<Place = P>) -> Result<(), Malformed> {
        match self.state {
            State::Skip(end) if end == self.at => self.state = State::Key,
            State::Bytes(place, end) if end == self.at => {
                schema.end(place);
                self.state = State::Key;
            }
            State::Packed(place, end) if end == self.at => {
                if self.bits > 0 {
                    return Err(Malformed);
                }
                schema.end(place);
                self.state = State::Key;
            }
            _ => {}
        }
        while let (State::Key, 0, Some((place, end))) = (self.state, self.bits, self.innermost())
            && end == self.at
        {
            schema.end(place);
            self.depth -= 1;
        }
        Ok(())
    }

    /// Takes a byte of a varint; gives the varint when it was the last one.
    fn digit(&mut self, byte: u8) -> Result<Option<u64>, Malformed> {
        // Ten bytes of seven bits; of the last one a single bit counts.
        if self.bits == 63 && byte > 1 {
            return Err(Malformed);
        }
        self.varint |= u64::from(byte & 0x7f) << self.bits;
        if byte & 0x80 != 0 {
            self.bits += 7;
            return Ok(None);
        }
        self.bits = 0;
        Ok(Some(std::mem::take(&mut self.varint)))
    }

    fn packed(&mut self, place: P, bytes: &[u8], schema: &mut impl Schema<Place = P>) -> Result<usize, Malformed> {
        for &byte in bytes {
            if let Some(value) = self.digit(byte)? {
                schema.packed(place, value);
            }
        }
        Ok(bytes.len())
    }

    /// Reads on in a key, an integer or a length. Returns how many bytes that took.
    fn number(&mut self, bytes: &[u8], schema: &mut impl Schema<Place = P>) -> Result<usize, Malformed> {
        for (i, &byte) in bytes.iter().enumerate() {
            let Some(value) = self.digit(byte)? else { continue };
            let after = self.at + i as u64 + 1;
            match self.state {
                State::Integer(number) => {
                    schema.integer(self.parent(), number, value);
                    self.state = State::Key;
                }
                State::Length(number) => {
                    if value > self.limit() - after {
                        return Err(Malformed);
                    }
                    self.state = self.begun(number, after, value, schema);
                }
                _ => self.state = self.keyed(value, after)?,
            }
            return Ok(i + 1);
        }
        Ok(bytes.len())
    }

    /// A field of `length` bytes begins at `at`.
    fn begun(&mut self, number: u32, at: u64, length: u64, schema: &mut impl Schema<Place = P>) -> State<P> {
        let end = at + length;
        match schema.field(self.parent(), number, at, length) {
            Field::Bytes(place) => State::Bytes(place, end),
            Field::Packed(place) => State::Packed(place, end),
            Field::Message(place) if self.depth < DEPTH => {
                self.open[self.depth] = Some((place, end));
                self.depth += 1;
                State::Key
            }
            Field::Message(_) | Field::Skip => State::Skip(end),
        }
    }

    /// What comes behind a key that ends at `after`.
    fn keyed(&self, key: u64, after: u64) -> Result<State<P>, Malformed> {
        let number = u32::try_from(key >> 3).ok().filter(|n| *n > 0).ok_or(Malformed)?;
        let fixed =
            |bytes: u64| if self.limit() - after < bytes { Err(Malformed) } else { Ok(State::Skip(after + bytes)) };
        match key & 7 {
            0 => Ok(State::Integer(number)),
            1 => fixed(8),
            2 => Ok(State::Length(number)),
            5 => fixed(4),
            // Groups have been out of use for as long as these messages exist.
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::{field, int, packed};
    use super::*;
    use proptest::prelude::*;

    /// Fields 1 and 2 are messages, 3 bytes, 4 packed, the others unknown. Keeps what it is told as text.
    #[derive(Default)]
    struct Told(String);

    impl Schema for Told {
        type Place = u32;

        fn field(&mut self, parent: u32, number: u32, at: u64, length: u64) -> Field<u32> {
            let place = parent * 10 + number;
            self.0 += &format!("{place}@{at}+{length} ");
            match number {
                1 | 2 if parent < 100_000_000 => Field::Message(place),
                3 => Field::Bytes(place),
                4 => Field::Packed(place),
                _ => Field::Skip,
            }
        }

        fn integer(&mut self, parent: u32, number: u32, value: u64) {
            self.0 += &format!("{parent}.{number}={value} ");
        }

        fn packed(&mut self, _: u32, value: u64) {
            self.0 += &format!("{value}, ");
        }

        fn bytes(&mut self, _: u32, piece: &[u8]) {
            self.0.extend(piece.iter().map(|b| format!("{b:02x}")));
        }

        fn end(&mut self, place: u32) {
            self.0 += &format!("/{place} ");
        }
    }

    fn told<'a>(length: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<String, Malformed> {
        let (mut walker, mut told) = (Walker::new(0, 100, length as u32), Told::default());
        for piece in pieces {
            walker.push(piece, &mut told)?;
        }
        walker.finish(&mut told)?;
        Ok(told.0)
    }

    fn tell(message: &[u8]) -> Result<String, Malformed> {
        told(message.len(), [message])
    }

    #[test]
    fn fields_are_told_with_their_places_offsets_and_ends() {
        let inner = [int(7, 300), packed(4, &[1, 200]), field(3, b"ab"), field(3, b"")].concat();
        let message = [field(1, &inner), field(9, b"skipped"), int(5, u64::MAX), field(2, b"")].concat();
        let want = "1@102+14 1.7=300 14@107+3 1, 200, /14 13@112+2 6162/13 13@116+0 /13 /1 9@118+7 0.5=18446744073709551615 2@138+0 /2 ";
        assert_eq!(tell(&message).as_deref(), Ok(want));
        assert_eq!(tell(b"").as_deref(), Ok(""));
    }

    #[test]
    fn fixed_numbers_are_skipped() {
        let message = [&[1 << 3 | 1][..], &[9; 8], &[2 << 3 | 5], &[9; 4], &int(1, 5)].concat();
        assert_eq!(tell(&message).as_deref(), Ok("0.1=5 "));
    }

    #[test]
    fn what_is_no_message_is_told_apart() {
        for bytes in [
            &[0x80][..],
            &[0x08],
            &[0x00, 0x01],
            &[0x07],
            &[0x0b],
            &[0x0c],
            &[0x1a, 5, 1],
            &[0x0d, 1, 2],
            // Reaches beyond its parent, though not beyond the message.
            &[0x0a, 2, 0x1a, 3, 1, 1, 1],
            &[0x0a, 1, 0x08, 1],
            &[0x22, 1, 0x80],
            &[0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02],
            &[0x88, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01, 1],
        ] {
            assert_eq!(tell(bytes), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(told(3, [&int(1, 1)[..]]), Err(Malformed), "too short");
        assert_eq!(told(1, [&int(1, 1)[..]]), Err(Malformed), "too long");
    }

    #[test]
    fn deeper_messages_than_can_be_open_are_skipped() {
        let deep = |n| (0..n).fold(int(5, 1), |inner, _| field(1, inner));
        assert!(tell(&deep(DEPTH)).is_ok_and(|t| t.contains(".5=1")));
        assert!(tell(&deep(DEPTH + 1)).is_ok_and(|t| !t.contains(".5=1")));
    }

    proptest! {
        #[test]
        fn pieces_change_nothing_and_no_bytes_panic(
            message in prop::collection::vec(prop_oneof![0u8..40, any::<u8>()], 0..60),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|c| c.index(message.len() + 1)).collect();
            at.extend([0, message.len()]);
            at.sort_unstable();
            let pieces = at.windows(2).map(|w| &message[w[0]..w[1]]);
            prop_assert_eq!(told(message.len(), pieces), tell(&message));
        }
    }
}
