//! Cutting a stream of bytes into messages.

use std::io::Read;

use bytes::{Buf, Bytes};
use flate2::read::GzDecoder;

use crate::{Code, Message, Rope, Status};

/// Largest message that is taken unless said otherwise: 4 MiB, as in Go's library.
pub const DEFAULT_MAX_MESSAGE: usize = 4 << 20;

/// Cuts bytes into messages. What is pushed is kept by reference until its message is complete.
#[derive(Debug)]
pub struct Frames {
    waiting: Rope,
    /// Flag and length of the message that is arriving.
    head: Option<(bool, usize)>,
    max_message: usize,
    gzip: bool,
}

impl Frames {
    /// For messages of at most `max_message` bytes; `gzip` says that compressed ones are compressed so.
    #[must_use]
    pub fn new(max_message: usize, gzip: bool) -> Self {
        Self { waiting: Rope::default(), head: None, max_message, gzip }
    }

    /// The next bytes.
    pub fn push(&mut self, bytes: Bytes) {
        self.waiting.push(bytes);
    }

    /// Whether a message was begun and is not complete.
    #[must_use]
    pub fn within(&self) -> bool {
        self.head.is_some() || !self.waiting.is_empty()
    }

    /// The next complete message.
    ///
    /// # Errors
    /// The status to end the call with: the message is too large, or compressed in an unknown way.
    pub fn take(&mut self) -> Result<Option<Message>, Status> {
        let (compressed, length) = match self.head {
            Some(head) => head,
            None if self.waiting.remaining() < 5 => return Ok(None),
            None => {
                let flag = self.waiting.get_u8();
                let length = self.waiting.get_u32() as usize;
                if flag > 1 {
                    let message = format!("grpc: received unexpected payload format {flag}");
                    return Err(Status::new(Code::Internal, message));
                }
                if length > self.max_message {
                    return Err(self.too_large(length));
                }
                *self.head.insert((flag == 1, length))
            }
        };
        if self.waiting.remaining() < length {
            return Ok(None);
        }
        self.head = None;
        let mut rope = Rope::default();
        let mut left = length;
        while left > 0 {
            let n = self.waiting.chunk().len().min(left);
            rope.push(self.waiting.copy_to_bytes(n));
            left -= n;
        }
        if compressed { self.inflated(&rope).map(Some) } else { Ok(Some(Message { rope })) }
    }

    fn too_large(&self, length: usize) -> Status {
        let limit = self.max_message;
        let message = format!("grpc: received message larger than max ({length} vs. {limit})");
        Status::new(Code::ResourceExhausted, message)
    }

    fn inflated(&self, rope: &Rope) -> Result<Message, Status> {
        if !self.gzip {
            let message = "grpc: a compressed message came with no known grpc-encoding (gzip is)";
            return Err(Status::new(Code::Unimplemented, message));
        }
        let mut out = Vec::new();
        let mut reader = GzDecoder::new(rope.clone().reader()).take(self.max_message as u64 + 1);
        match reader.read_to_end(&mut out) {
            Ok(_) if out.len() > self.max_message => Err(self.too_large(out.len())),
            Ok(_) => Ok(Message::from(Bytes::from(out))),
            Err(error) => {
                Err(Status::new(Code::Internal, format!("grpc: failed to decompress the received message: {error}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write as _;

    fn framed(flag: u8, payload: &[u8]) -> Vec<u8> {
        [&[flag][..], &(payload.len() as u32).to_be_bytes(), payload].concat()
    }

    fn flat(message: &Message) -> Vec<u8> {
        message.rope.pieces().flatten().copied().collect()
    }

    proptest! {
        #[test]
        fn messages_come_out_as_they_went_in_however_they_are_cut(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6), step in 1usize..30) {
            let all: Vec<u8> = payloads.iter().flat_map(|p| framed(0, p)).collect();
            let mut frames = Frames::new(1 << 20, false);
            let mut out = Vec::new();
            for chunk in all.chunks(step) {
                frames.push(Bytes::copy_from_slice(chunk));
                while let Some(message) = frames.take().expect("well formed") {
                    out.push(flat(&message));
                }
            }
            prop_assert_eq!(out, payloads);
            prop_assert!(!frames.within());
        }
    }

    #[test]
    fn a_message_above_the_limit_is_refused_by_its_head() {
        let mut frames = Frames::new(4 << 20, false);
        frames.push(Bytes::from_static(&[0, 0, 0x4c, 0x4b, 0x4c]));
        let status = frames.take().expect_err("too large");
        assert_eq!(status.code, Code::ResourceExhausted);
        assert_eq!(status.message, "grpc: received message larger than max (5000012 vs. 4194304)");
    }

    #[test]
    fn gzip_is_inflated_up_to_the_limit() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&[b'a'; 1000]).expect("memory");
        let packed = framed(1, &gz.finish().expect("memory"));
        let mut frames = Frames::new(1000, true);
        frames.push(packed.clone().into());
        assert_eq!(flat(&frames.take().expect("sound").expect("complete")), vec![b'a'; 1000]);
        let mut small = Frames::new(999, true);
        small.push(packed.clone().into());
        assert_eq!(small.take().expect_err("too large").code, Code::ResourceExhausted);
        let mut unknown = Frames::new(1000, false);
        unknown.push(packed.into());
        assert_eq!(unknown.take().expect_err("not gzip").code, Code::Unimplemented);
    }
}
