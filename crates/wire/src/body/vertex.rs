//! Requests of Vertex AI's prediction service: a gRPC message with an `HttpBody`, whose data is the JSON of another API
//! (request-lifecycle 2.8).

use super::json_body::{JsonBody, pieces};
use super::unary::Unary;
use super::{Api, BodyError, ParsedBody, ReadOptions};
use crate::grpc::{Field, Schema};
use bytes::Bytes;
use std::ops::Range;

/// Where a field stands.
#[derive(Clone, Copy, Debug)]
enum Place {
    Request,
    HttpBody,
    Data,
}

/// Reads one such request.
#[derive(Debug)]
pub(super) struct VertexBody {
    api: Api,
    options: ReadOptions,
    message: Unary<Place>,
    data: Data,
}

/// The data, as far as it was found. It is read as it comes; should it come once more, the last one counts and is read at the end.
#[derive(Debug)]
struct Data {
    json: JsonBody,
    /// Where the last one lies in the body.
    span: Option<Range<usize>>,
    again: bool,
}

impl VertexBody {
    pub(super) fn new(api: Api, options: ReadOptions) -> Self {
        let json = JsonBody::new(inner(api), options.clone(), 0);
        let data = Data { json, span: None, again: false };
        Self { api, options, message: Unary::new(Place::Request), data }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.message.push(chunk, &mut self.data);
    }

    pub(super) fn finish(&mut self, chunks: &[Bytes]) -> Result<ParsedBody, BodyError> {
        self.message.finish()?;
        let Data { json, span, again } = &mut self.data;
        if *again {
            let span = span.take().unwrap_or_default();
            *json = JsonBody::new(inner(self.api), self.options.clone(), span.start);
            pieces(chunks, span).for_each(|piece| json.push(piece));
        }
        let body = json.finish(chunks)?;
        // The lengths around it leave no room for another name.
        Ok(ParsedBody { api: self.api, model_span: None, ..body })
    }
}

/// What the data is read as.
fn inner(api: Api) -> Api {
    if api == Api::VertexChat { Api::Chat } else { Api::Responses }
}

impl Schema for Data {
    type Place = Place;

    fn field(&mut self, parent: Place, number: u32, at: u64, length: u64) -> Field<Place> {
        match (parent, number) {
            (Place::Request, 2) => Field::Message(Place::HttpBody),
            (Place::HttpBody, 2) => {
                self.again = self.span.is_some();
                self.span = Some(at as usize..(at + length) as usize);
                if !self.again {
                    self.json.starting_at(at as usize);
                }
                Field::Bytes(Place::Data)
            }
            _ => Field::Skip,
        }
    }

    fn integer(&mut self, _: Place, _: u32, _: u64) {}

    fn bytes(&mut self, _: Place, piece: &[u8]) {
        if !self.again {
            self.json.push(piece);
        }
    }
}
