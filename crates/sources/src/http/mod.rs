//! A client for one address: one connection, kept alive.
//!
//! Why not a pooling client: what is asked here is one page per connection again and again, from hundreds of addresses. The connection is
//! driven by the task that asks (no second task to wake), its read buffer is small (pages are collected in shared buffers), and nothing of it
//! is shared with another address, so that a slow engine delays nobody.

mod client;
mod connect;
mod error;
mod once;
mod tls;

pub(crate) use client::{Ask, Client, Discard, Sink};
pub use connect::PageAt;
pub(crate) use connect::{Connects, Peer};
pub use error::FetchError;
pub use once::{Answer, ask};
pub use tls::{TlsClient, TlsError, TlsOptions};
