//! Everything that reads bytes other people wrote: request bodies, response bodies, event streams, metric pages.
//!
//! * [`json::Tokenizer`] takes JSON apart chunk by chunk and hands out borrowed pieces; the other modules stand on it.
//! * [`body::BodyReader`] reads one request body while it arrives: model, stream flag, output cap, cache salt, and the content
//!   hashes of the prompt's blocks. When the last byte is in, only the chaining of the hashes is left to do.
//! * [`usage::UsageReader`] finds token usage in a response that passes by, plain, gzipped or as an event stream.
//! * [`rewrite::ModelRewriter`] gives the model in such a response the name that the client knows it by.
//! * [`exposition::scan`] picks the few wanted series out of a Prometheus text page.
//!
//! Nothing here does I/O, reads a clock or panics on what it is fed, and memory is bounded whatever arrives: every limit is a
//! named constant with its value in its documentation.
//!
//! ```
//! use bytes::Bytes;
//! use pointsman_wire::body::{Api, BodyReader, ReadOptions};
//!
//! let chunks = [Bytes::from_static(br#"{"model":"llama3","messages":[{"role":"us"#), Bytes::from_static(br#"er","content":"Hello"}]}"#)];
//! let mut reader = BodyReader::new(Api::Chat, ReadOptions::default());
//! for chunk in &chunks {
//!     reader.push(chunk);
//! }
//! let body = reader.finish(&chunks)?;
//! assert_eq!(body.model.as_deref(), Some("llama3"));
//! assert_eq!(body.prompts[0].tokens, 3, "`userHello` is nine bytes, four to a token");
//! # Ok::<(), pointsman_wire::body::BodyError>(())
//! ```

pub mod body;
pub mod exposition;
#[doc(hidden)]
pub mod fuzzing;
mod grpc;
pub mod json;
pub mod rewrite;
pub mod usage;
