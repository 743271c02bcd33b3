//! The server side of gRPC, for calls whose messages are mostly bytes that pass through.
//!
//! gRPC over HTTP/2 is little: a five-byte head before each message, and a status in the trailers. What a general library adds to that is one copy
//! of every message on its way in and one on its way out, which is most of the cost of an ext-proc call with a long body. Here
//!
//! * a [`Message`] is the list of slices it arrived in; [`Cursor`] reads protobuf fields from it and hands out byte fields as they lie;
//! * an answer is a [`Rope`]: small fields are written into one buffer, byte fields are appended by reference;
//! * a [`Call`] is told of messages and says what to send, synchronously and without I/O; [`Stream`] is the HTTP body that drives it. One call
//!   is one task, without channels.
//!
//! [`Server`] accepts connections onto threads of one core each. [`health`] is the standard health service.
//!
//! Deliberately absent: a client, reflection, code generation, compression of answers.

mod call;
mod frames;
pub mod health;
mod message;
mod proto;
mod rope;
mod server;
mod status;
mod streams;
mod worker;

pub use call::{Body, Call, Out, Stream, refuse};
pub use frames::{DEFAULT_MAX_MESSAGE, Frames};
pub use message::{Cursor, Fields, Message, WireError, WireType};
pub use proto::{Writer, length_of_varint};
pub use rope::Rope;
pub use server::{Server, ServerOptions, Service, TlsSource};
pub use status::{Code, Status};
pub use streams::{Listed, Streams};
