//! The gateway over real sockets, between raw clients and scripted engines.

#![allow(clippy::unwrap_used)]

mod failing;
mod holding;
mod lifecycle;
mod limits;
mod passing;
mod ports;
mod renaming;
mod support;
mod tls;
mod tracing;
mod waiting;
