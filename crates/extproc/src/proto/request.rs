//! `ProcessingRequest`: what the proxy tells.

use bytes::Bytes;
use pointsman_grpc::{Cursor, Fields, Message, Rope, WireError, WireType};

/// How a proxy sends bodies of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyMode {
    /// Not at all.
    None,
    /// Piece by piece, each answered before the next goes on.
    Streamed,
    /// In one message.
    Buffered,
    /// In one message, unless it is too long.
    BufferedPartial,
    /// Piece by piece, answered whenever the answer is ready. What is assumed of a proxy that does not say.
    #[default]
    FullDuplex,
}

impl BodyMode {
    fn of(value: u64) -> Self {
        match value {
            0 => Self::None,
            1 => Self::Streamed,
            2 => Self::Buffered,
            3 => Self::BufferedPartial,
            _ => Self::FullDuplex,
        }
    }

    /// As Envoy's configuration spells it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Streamed => "STREAMED",
            Self::Buffered => "BUFFERED",
            Self::BufferedPartial => "BUFFERED_PARTIAL",
            Self::FullDuplex => "FULL_DUPLEX_STREAMED",
        }
    }
}

/// Body modes of both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modes {
    /// Of requests.
    pub request: BodyMode,
    /// Of responses.
    pub response: BodyMode,
}

/// One message of the proxy.
#[derive(Debug, Default)]
pub(crate) struct ProcessingRequest {
    pub(crate) event: Option<Event>,
    /// `metadata_context`.
    pub(crate) metadata: Option<Cursor>,
    /// `protocol_config`, in the first message only.
    pub(crate) modes: Option<Modes>,
}

/// What happened.
#[derive(Debug)]
pub(crate) enum Event {
    RequestHeaders(Headers),
    RequestBody(Body),
    RequestTrailers,
    ResponseHeaders(Headers),
    ResponseBody(Body),
    ResponseTrailers,
}

/// `HttpHeaders`.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    /// A `HeaderMap`, in one slice.
    map: Bytes,
    pub(crate) end: bool,
}

/// `HttpBody`.
#[derive(Debug, Default)]
pub(crate) struct Body {
    pub(crate) bytes: Rope,
    pub(crate) end: bool,
}

impl ProcessingRequest {
    pub(crate) fn read(message: Message) -> Result<Self, WireError> {
        let mut request = Self::default();
        let mut cursor = message.cursor();
        while let Some((field, wire)) = cursor.field()? {
            match (field, wire) {
                (2, WireType::Length) => request.event = Some(Event::RequestHeaders(Headers::read(cursor.message()?)?)),
                (3, WireType::Length) => {
                    request.event = Some(Event::ResponseHeaders(Headers::read(cursor.message()?)?))
                }
                (4, WireType::Length) => request.event = Some(Event::RequestBody(Body::read(cursor.message()?)?)),
                (5, WireType::Length) => request.event = Some(Event::ResponseBody(Body::read(cursor.message()?)?)),
                (6, WireType::Length) => {
                    cursor.skip(wire)?;
                    request.event = Some(Event::RequestTrailers);
                }
                (7, WireType::Length) => {
                    cursor.skip(wire)?;
                    request.event = Some(Event::ResponseTrailers);
                }
                (8, WireType::Length) => request.metadata = Some(cursor.message()?),
                (11, WireType::Length) => request.modes = Some(modes(cursor.message()?)?),
                _ => cursor.skip(wire)?,
            }
        }
        Ok(request)
    }
}

/// `ProtocolConfiguration`.
fn modes(mut cursor: Cursor) -> Result<Modes, WireError> {
    // In proto3 a mode of 0, which is NONE, is left out.
    let mut modes = Modes { request: BodyMode::None, response: BodyMode::None };
    while let Some((field, wire)) = cursor.field()? {
        match (field, wire) {
            (1, WireType::Varint) => modes.request = BodyMode::of(cursor.varint()?),
            (2, WireType::Varint) => modes.response = BodyMode::of(cursor.varint()?),
            _ => cursor.skip(wire)?,
        }
    }
    Ok(modes)
}

impl Headers {
    fn read(mut cursor: Cursor) -> Result<Self, WireError> {
        let mut headers = Self::default();
        while let Some((field, wire)) = cursor.field()? {
            match (field, wire) {
                (1, WireType::Length) => headers.map = cursor.bytes()?,
                (3, WireType::Varint) => headers.end = cursor.varint()? != 0,
                _ => cursor.skip(wire)?,
            }
        }
        Ok(headers)
    }

    /// Calls `each` with every name and value, in order. A value is `raw_value` unless that is empty.
    pub(crate) fn for_each<'a>(&'a self, mut each: impl FnMut(&'a [u8], &'a [u8])) -> Result<(), WireError> {
        let mut map = Fields(&self.map);
        while let Some((field, wire)) = map.field()? {
            if (field, wire) != (1, WireType::Length) {
                map.skip(wire)?;
                continue;
            }
            let mut header = Fields(map.bytes()?);
            let (mut key, mut value, mut raw): (&[u8], &[u8], &[u8]) = (b"", b"", b"");
            while let Some((field, wire)) = header.field()? {
                match (field, wire) {
                    (1, WireType::Length) => key = header.bytes()?,
                    (2, WireType::Length) => value = header.bytes()?,
                    (3, WireType::Length) => raw = header.bytes()?,
                    _ => header.skip(wire)?,
                }
            }
            each(key, if raw.is_empty() { value } else { raw });
        }
        Ok(())
    }
}

impl Body {
    fn read(mut cursor: Cursor) -> Result<Self, WireError> {
        let mut body = Self::default();
        while let Some((field, wire)) = cursor.field()? {
            match (field, wire) {
                (1, WireType::Length) => {
                    body.bytes = Rope::default();
                    cursor.pieces(|piece| body.bytes.push(piece))?;
                }
                (2, WireType::Varint) => body.end = cursor.varint()? != 0,
                _ => cursor.skip(wire)?,
            }
        }
        Ok(body)
    }
}
