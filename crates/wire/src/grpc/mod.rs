//! gRPC bodies: messages cut out of a stream of bytes, and their protobuf fields found while they arrive.
//!
//! [`Frames`] cuts a body into messages (one byte of flags, four of length, the message). A [`Walker`] goes through one message and tells a
//! [`Schema`] of the few fields it wants. Neither holds any of the bytes: what they keep does not depend on what they are fed.
//!
//! Source: request-lifecycle 2.7; the gRPC protocol over HTTP/2 and the protobuf wire format, as published.

mod frames;
mod message;
#[cfg(test)]
pub(crate) mod write;

pub(crate) use frames::{Frames, HEAD, Part};
pub(crate) use message::{Field, Malformed, Schema, Walker};
