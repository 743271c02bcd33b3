//! Responses of vLLM's gRPC service: `GenerateResponse` and `EmbedResponse` (request-lifecycle 2.7).

use super::UsageError;
use super::messages::{Messages, Receiver};
use super::numbers::Found;
use super::scan::Counts;
use crate::body::Api;
use crate::grpc::{Field, Schema};

/// Where a field stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Response,
    Chunk,
    Complete,
}

/// Reads usage from such a response.
#[derive(Debug)]
pub(super) struct VllmGrpcUsage {
    embed: bool,
    messages: Messages<Place>,
    counts: [u64; 3],
}

impl VllmGrpcUsage {
    pub(super) fn new(api: Api) -> Self {
        Self { embed: api == Api::VllmGrpcEmbed, messages: Messages::new(Place::Response), counts: [0; 3] }
    }

    pub(super) fn push(&mut self, chunk: &[u8], found: &mut Found) -> Result<(), UsageError> {
        let Self { embed, messages, counts } = self;
        let mut reading = Reading { embed: *embed, counts, found, read: Ok(()) };
        messages.push(chunk, &mut reading);
        reading.read
    }

    pub(super) fn finish(&self) -> Result<(), UsageError> {
        self.messages.finish()
    }

    /// Messages seen.
    pub(super) fn count(&self) -> u64 {
        self.messages.count()
    }
}

/// Takes the figures of one message after the other.
struct Reading<'a> {
    embed: bool,
    /// Prompt, completion, cached: what the message under way has said.
    counts: &'a mut [u64; 3],
    found: &'a mut Found,
    read: Result<(), UsageError>,
}

impl Schema for Reading<'_> {
    type Place = Place;

    fn field(&mut self, parent: Place, number: u32, _: u64, _: u64) -> Field<Place> {
        match (parent, number) {
            (Place::Response, 1) if !self.embed => Field::Message(Place::Chunk),
            (Place::Response, 2) if !self.embed => Field::Message(Place::Complete),
            _ => Field::Skip,
        }
    }

    fn integer(&mut self, parent: Place, number: u32, value: u64) {
        let figure = match (parent, number) {
            (Place::Chunk, 2..=4) => number - 2,
            (Place::Complete, 3..=5) => number - 3,
            (Place::Response, 2) if self.embed => 0,
            _ => return,
        };
        self.counts[figure as usize] = u64::from(value as u32);
    }
}

impl Receiver for Reading<'_> {
    fn complete(&mut self) {
        let [prompt, completion, cached] = std::mem::take(self.counts);
        if prompt > 0 || completion > 0 {
            self.found.add(&Counts {
                prompt: Some(prompt),
                completion: Some(completion),
                cached: (!self.embed).then_some(cached),
                ..Counts::default()
            });
        }
    }

    fn unreadable(&mut self) {
        *self.counts = [0; 3];
        self.read = Err(UsageError::Grpc);
    }
}
