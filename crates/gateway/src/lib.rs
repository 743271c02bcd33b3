//! The built-in HTTP gateway: one more mouth of the router.
//!
//! A [`Gateway`] takes HTTP/1.1 and HTTP/2 requests (clear or TLS), hands head and body to the router as they arrive, sends each request to the endpoint that the
//! router names, and lets the response pass. It decides nothing about endpoints: it translates, and it reports what it sees (failures, which put an
//! endpoint aside for a while, and the end of every request, exactly once).
//!
//! The way of a request, and where to read it:
//!
//! 1. `listener`: a connection is accepted, served, and let finish at shutdown (`activity` closes those that only sit there, and those
//!    whose client takes nothing any more; of several responses over HTTP/2, `stall` ends the one).
//! 2. `gateway`: what is not routed is answered (`/healthz`, `/readyz`, and `models` for `GET /v1/models`).
//! 3. `read`: the body goes to the router chunk by chunk, under the `budget` for all bytes held.
//! 4. `forward`: the request goes to the chosen endpoint over a kept connection (`upstream`), without the headers that end here (`hop`); an
//!    endpoint that fails before its response begins is told to `ejection`, and the router names the next best.
//! 5. `stream`: response bytes pass by reference; a break after the first byte ends an event stream with an error event and any other
//!    body incomplete, never silently short.
//!
//! Deliberately absent: retries of what an engine has begun to answer or may still be working on, any buffering of responses, any change to bytes.

mod activity;
mod answer;
mod budget;
mod ejection;
mod error;
mod forward;
mod gateway;
mod hop;
mod listener;
mod metrics;
mod models;
mod options;
mod read;
mod renaming;
mod stall;
mod stream;
mod tls;
mod upstream;

pub use error::GatewayError;
pub use gateway::Gateway;
pub use listener::serve;
pub use options::{EjectionOptions, GatewayOptions, ServerTls};
