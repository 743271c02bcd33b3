//! `ProcessingResponse`: what the proxy is told. Everything is written as a gRPC frame; bodies are appended by reference.

use bytes::{Buf, Bytes};
use pointsman_grpc::{Out, Rope, Writer, length_of_varint};

/// Bytes of a body in one message at most (request-lifecycle 1.1).
pub(crate) const PIECE: usize = 62_000;

/// Which of the two directions an answer is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Response,
}

impl Direction {
    fn headers(self) -> u32 {
        if self == Self::Request { 1 } else { 2 }
    }

    fn body(self) -> u32 {
        if self == Self::Request { 3 } else { 4 }
    }

    fn trailers(self) -> u32 {
        if self == Self::Request { 5 } else { 6 }
    }
}

/// `ProcessingResponse.dynamic_metadata`.
const DYNAMIC_METADATA: u32 = 8;
/// `CommonResponse.clear_route_cache`.
const CLEAR_ROUTE_CACHE: u32 = 5;

/// Sets a header, in a `HeaderMutation`. The append fields stay unset: the value replaces any other.
pub(crate) fn set_header(mutation: &mut Writer, name: &str, value: &[u8]) {
    mutation.message(1, |option| {
        option.message(1, |header| {
            header.bytes(1, name.as_bytes());
            header.bytes(3, value);
        });
    });
}

/// Removes a header, in a `HeaderMutation`.
pub(crate) fn remove_header(mutation: &mut Writer, name: &str) {
    mutation.bytes(2, name.as_bytes());
}

/// `HeadersResponse`, with the header mutation that `mutate` writes and the metadata that `metadata` writes.
pub(crate) fn headers(
    out: &mut Out,
    direction: Direction,
    clear_route_cache: bool,
    mutate: impl FnOnce(&mut Writer),
    metadata: Metadata<'_>,
) {
    out.write(|writer| {
        writer.frame(0, |w| {
            w.message(direction.headers(), |headers| {
                headers.message(1, |common| {
                    common.message(2, mutate);
                    common.flag(CLEAR_ROUTE_CACHE, clear_route_cache);
                });
            });
            if let Some(metadata) = metadata {
                w.message(DYNAMIC_METADATA, metadata);
            }
        })
    });
}

/// `HeadersResponse` that changes nothing.
pub(crate) fn go_on_with_headers(out: &mut Out, direction: Direction) {
    out.write(|writer| writer.frame(0, |w| w.message(direction.headers(), |_| {})));
}

/// Writes dynamic metadata, where there is some.
pub(crate) type Metadata<'a> = Option<&'a dyn Fn(&mut Writer)>;

/// `BodyResponse`s that send `body` on in pieces; the last says whether it is the end, and brings the metadata.
pub(crate) fn streamed_body(out: &mut Out, direction: Direction, mut body: Rope, end: bool, metadata: Metadata<'_>) {
    loop {
        let length = body.len().min(PIECE);
        let last = length == body.len() && end;
        // From the inside out: `StreamedBodyResponse`, `BodyMutation`, `CommonResponse`, `BodyResponse`.
        let bytes = if length == 0 { 0 } else { 1 + length_of_varint(length as u64) + length };
        let streamed = bytes + if last { 2 } else { 0 };
        let mutation = 1 + length_of_varint(streamed as u64) + streamed;
        let common = 1 + length_of_varint(mutation as u64) + mutation;
        let response = 1 + length_of_varint(common as u64) + common;
        let metadata = metadata.filter(|_| length == body.len());
        out.write(|writer| {
            writer.frame(length, |w| {
                // Before the body, whose bytes end the message.
                if let Some(metadata) = metadata {
                    w.message(DYNAMIC_METADATA, metadata);
                }
                w.head(direction.body(), response);
                w.head(1, common);
                w.head(3, mutation);
                w.head(3, streamed);
                // The flag goes first, so that the body is the end of the message.
                w.flag(2, last);
                if length > 0 {
                    w.head(1, length);
                }
            })
        });
        let mut left = length;
        while left > 0 {
            let n = body.chunk().len().min(left);
            out.send(body.copy_to_bytes(n));
            left -= n;
        }
        if body.is_empty() {
            return;
        }
    }
}

/// What an answer changes beside a body.
#[derive(Clone, Copy, Default)]
pub(crate) struct Change<'a> {
    /// Writes the header mutation.
    pub(crate) headers: Option<&'a dyn Fn(&mut Writer)>,
    /// Writes the dynamic metadata.
    pub(crate) metadata: Metadata<'a>,
}

/// `BodyResponse` to a proxy that does not stream: goes on with the body as it is, or with `replaced`.
pub(crate) fn whole_body(out: &mut Out, direction: Direction, change: Change<'_>, replaced: Option<&Rope>) {
    out.write(|writer| {
        writer.frame(0, |w| {
            w.message(direction.body(), |body| {
                body.message(1, |common| {
                    if let Some(headers) = change.headers {
                        common.message(2, headers);
                    }
                    if let Some(replaced) = replaced {
                        let joined: Vec<u8> = replaced.pieces().flatten().copied().collect();
                        common.message(3, |mutation| mutation.bytes(1, &joined));
                    }
                    common.flag(CLEAR_ROUTE_CACHE, change.headers.is_some());
                });
            });
            if let Some(metadata) = change.metadata {
                w.message(DYNAMIC_METADATA, metadata);
            }
        })
    });
}

/// `TrailersResponse`.
pub(crate) fn trailers(out: &mut Out, direction: Direction, metadata: Metadata<'_>) {
    out.write(|writer| {
        writer.frame(0, |w| {
            w.message(direction.trailers(), |_| {});
            if let Some(metadata) = metadata {
                w.message(DYNAMIC_METADATA, metadata);
            }
        })
    });
}

/// `ImmediateResponse`: the client gets this instead.
pub(crate) fn immediate(out: &mut Out, status: u16, body: &str, headers: &[(&str, &str)]) {
    out.write(|writer| {
        writer.frame(0, |w| {
            w.message(7, |response| {
                response.message(1, |w| w.varint(1, u64::from(status)));
                if !headers.is_empty() {
                    response.message(2, |mutation| {
                        headers.iter().for_each(|(name, value)| set_header(mutation, name, value.as_bytes()));
                    });
                }
                response.bytes(3, body.as_bytes());
            });
        })
    });
}

/// A member of a `Struct`.
pub(crate) fn member(fields: &mut Writer, key: &str, value: impl FnOnce(&mut Writer)) {
    fields.message(1, |entry| {
        entry.bytes(1, key.as_bytes());
        entry.message(2, value);
    });
}

/// A text `Value`.
pub(crate) fn text(value: &mut Writer, text: &str) {
    value.bytes(3, text.as_bytes());
}

/// Bytes of a list of slices, as one rope.
pub(crate) fn rope<'a>(pieces: impl IntoIterator<Item = &'a Bytes>) -> Rope {
    let mut rope = Rope::default();
    pieces.into_iter().for_each(|piece| rope.push(piece.clone()));
    rope
}
