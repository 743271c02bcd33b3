//! The reader of one request body.

use super::fields::Fields;
use super::{Api, BodyError, ParsedBody, ReadOptions};
use crate::json::{JsonError, Tokenizer};
use bytes::Bytes;
use std::ops::Range;

/// Bytes handed to the second pass between looks whether the cap is reached.
const STEP: usize = 16 << 10;

/// Reads one request body, chunk by chunk as it arrives. See the [module](super).
#[derive(Debug)]
pub struct BodyReader {
    api: Api,
    tokenizer: Tokenizer,
    fields: Fields,
    error: Option<JsonError>,
}

impl BodyReader {
    /// A reader for a body of this API.
    #[must_use]
    pub fn new(api: Api, options: ReadOptions) -> Self {
        Self { api, tokenizer: Tokenizer::new(), fields: Fields::new(api, options), error: None }
    }

    /// Reads one more chunk. What is wrong with it is told by [`finish`](Self::finish).
    pub fn push(&mut self, chunk: &[u8]) {
        if self.api.is_read()
            && self.error.is_none()
            && let Err(error) = self.tokenizer.push(chunk, &mut self.fields)
        {
            self.error = Some(error);
        }
    }

    /// Ends the body. `chunks` are the bytes that were pushed, all of them, cut in any way: they are looked at again only when a
    /// field that is hashed came late.
    ///
    /// # Errors
    /// The body is not what its API asks for; the first fault of JSON, else of content.
    pub fn finish(mut self, chunks: &[Bytes]) -> Result<ParsedBody, BodyError> {
        if !self.api.is_read() {
            return Ok(self.fields.parsed());
        }
        if let Some(error) = self.error {
            return Err(BodyError::Json { api: self.api, fault: error });
        }
        self.tokenizer.finish(&mut self.fields).map_err(|fault| BodyError::Json { api: self.api, fault })?;
        self.fields.check()?;
        if self.fields.is_out_of_order() {
            second_pass(&mut self.fields, chunks);
        } else {
            self.fields.end_prompts();
        }
        Ok(self.fields.parsed())
    }
}

/// Hashes the prompt again from its fields' spans, in the order it is hashed in.
fn second_pass(fields: &mut Fields, chunks: &[Bytes]) {
    let total = fields.bytes_if_order_does_not_matter();
    fields.restart();
    'fields: for (place, span) in fields.present() {
        fields.at_value(place);
        let mut tokenizer = Tokenizer::starting_at(span.start);
        for piece in pieces(chunks, span) {
            if total.is_some() && fields.is_full() {
                break 'fields;
            }
            // It was read once without an error.
            if tokenizer.push(piece, fields).is_err() {
                break;
            }
        }
        let _ = tokenizer.finish(fields);
    }
    fields.end_prompts();
    if let Some(bytes) = total {
        fields.set_total(bytes);
    }
}

/// The bytes at `span` of all `chunks` together.
fn pieces(chunks: &[Bytes], span: Range<usize>) -> impl Iterator<Item = &[u8]> {
    let mut base = 0;
    chunks
        .iter()
        .filter_map(move |chunk| {
            let start = span.start.saturating_sub(base).min(chunk.len());
            let end = span.end.saturating_sub(base).min(chunk.len());
            base += chunk.len();
            chunk.get(start..end)
        })
        .flat_map(|part| part.chunks(STEP))
}
