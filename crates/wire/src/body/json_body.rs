//! A body that is JSON, or the part of one that is.

use super::fields::Fields;
use super::{Api, BodyError, ParsedBody, ReadOptions};
use crate::json::{JsonError, Tokenizer};
use bytes::Bytes;
use std::ops::Range;

/// Bytes handed to the second pass between looks whether the cap is reached.
const STEP: usize = 16 << 10;

/// Reads JSON chunk by chunk.
#[derive(Debug)]
pub(super) struct JsonBody {
    api: Api,
    tokenizer: Tokenizer,
    fields: Fields,
    error: Option<JsonError>,
}

impl JsonBody {
    /// For JSON of this API that begins at this offset of the body.
    pub(super) fn new(api: Api, options: ReadOptions, offset: usize) -> Self {
        Self { api, tokenizer: Tokenizer::starting_at(offset), fields: Fields::new(api, options), error: None }
    }

    /// Nothing was pushed yet, and what will be begins at this offset of the body.
    pub(super) fn starting_at(&mut self, offset: usize) {
        self.tokenizer = Tokenizer::starting_at(offset);
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        if self.error.is_none()
            && let Err(error) = self.tokenizer.push(chunk, &mut self.fields)
        {
            self.error = Some(error);
        }
    }

    /// Ends the JSON. `chunks` are the whole body. (Not by value: all that is kept of a body is large to move.)
    pub(super) fn finish(&mut self, chunks: &[Bytes]) -> Result<ParsedBody, BodyError> {
        let api = self.api;
        let read = self.error.take().map_or_else(|| self.tokenizer.finish(&mut self.fields), Err);
        read.map_err(|fault| BodyError::Json { api, fault })?;
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
pub(super) fn pieces(chunks: &[Bytes], span: Range<usize>) -> impl Iterator<Item = &[u8]> {
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
