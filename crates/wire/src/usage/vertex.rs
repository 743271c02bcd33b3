//! Responses of Vertex AI's prediction service: messages that are an `HttpBody` each (request-lifecycle 2.8).
//!
//! Their data, one after the other, is the response of the engine: a JSON document, an event stream, or a document in each message. Which of
//! these is told by how it begins, since all of them come as `application/grpc`.

use super::UsageError;
use super::messages::{Messages, Receiver};
use super::numbers::Found;
use super::plain::Plain;
use crate::body::Api;
use crate::grpc::{Field, Schema};

/// Where a field stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    HttpBody,
    Data,
}

/// Reads usage from such a response.
#[derive(Debug)]
pub(super) struct VertexUsage {
    api: Api,
    messages: Messages<Place>,
    plain: Option<Plain>,
}

impl VertexUsage {
    pub(super) fn new(api: Api) -> Self {
        Self { api, messages: Messages::new(Place::HttpBody), plain: None }
    }

    pub(super) fn push(&mut self, chunk: &[u8], found: &mut Found) -> Result<(), UsageError> {
        let mut reading = Reading { api: self.api, plain: &mut self.plain, found, read: Ok(()) };
        self.messages.push(chunk, &mut reading);
        reading.read
    }

    pub(super) fn finish(&mut self, found: &mut Found) -> Result<(), UsageError> {
        let read = self.plain.as_mut().map_or(Ok(()), |plain| plain.finish(found));
        read.and(self.messages.finish())
    }

    /// Events seen, where the data is an event stream; else messages.
    pub(super) fn count(&self) -> u64 {
        match &self.plain {
            Some(plain @ Plain::Events(_)) => plain.events(),
            _ => self.messages.count(),
        }
    }
}

/// Hands the data on.
struct Reading<'a> {
    api: Api,
    plain: &'a mut Option<Plain>,
    found: &'a mut Found,
    /// The first thing that could not be read.
    read: Result<(), UsageError>,
}

impl Reading<'_> {
    fn note(&mut self, read: Result<(), UsageError>) {
        if self.read.is_ok() {
            self.read = read;
        }
    }
}

impl Schema for Reading<'_> {
    type Place = Place;

    fn field(&mut self, parent: Place, number: u32, _: u64, _: u64) -> Field<Place> {
        match (parent, number) {
            (Place::HttpBody, 2) => Field::Bytes(Place::Data),
            _ => Field::Skip,
        }
    }

    fn integer(&mut self, _: Place, _: u32, _: u64) {}

    fn bytes(&mut self, _: Place, mut piece: &[u8]) {
        if self.plain.is_none() {
            piece = piece.trim_ascii_start();
            let Some(first) = piece.first() else { return };
            *self.plain = Some(Plain::new(self.api, !matches!(first, b'{' | b'[')));
        }
        if let Some(plain) = self.plain {
            let read = plain.push(piece, self.found);
            self.note(read);
        }
    }
}

impl Receiver for Reading<'_> {
    fn complete(&mut self) {
        // Whatever comes next is another document.
        if let Some(Plain::Json(document)) = self.plain
            && document.is_complete()
        {
            let read = document.finish(self.found);
            *self.plain = None;
            self.note(read);
        }
    }

    fn unreadable(&mut self) {
        self.note(Err(UsageError::Grpc));
    }
}
