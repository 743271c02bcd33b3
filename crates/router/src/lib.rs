//! The director: one request's way through the router.
//!
//! A transport calls [`Pool::begin`] with the head of a request, [`Reading::push`]es its body as it arrives, waits for what [`Reading::prepare`] names, and asks
//! [`Reading::decide`] for a decision. The answer is a [`Routed`] request, whose endpoint the transport sends to and whose response it reports, or a [`Refused`] one. The steps
//! in between (read, prepare, resolve, gather, schedule, send, observe) are the same for every transport, and each leaves its trace in the decision record.
//!
//! Start reading at `read.rs`, then `prepare.rs`, `resolve.rs`, `decide.rs`, `routed.rs`.

mod decide;
mod head;
pub mod metrics;
mod pieces;
mod pool;
mod prepare;
mod read;
mod reload;
mod rename;
mod resolve;
mod routed;
mod shadow;
mod trace;

pub use decide::{Refused, seed_draws};
pub use head::RequestHead;
pub use metrics::Metrics;
pub use pool::{Active, FinishedListener, Pool, PoolOptions};
pub use prepare::{Prepared, Preparing};
pub use read::Reading;
pub use reload::{LastReload, Reloaded, data_layers_differ};
pub use routed::Routed;
pub use shadow::Shadow;
pub use trace::TraceHeaders;
