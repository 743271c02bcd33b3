//! The vocabulary every other crate speaks.
//!
//! Identities ([`EndpointName`], [`Slot`]), units ([`BlockHash`], [`Nanos`]), the injected [`Clock`], what a request may be
//! refused with ([`Refusal`]), the names of headers ([`headers`]). Nothing here does I/O, and nothing above the
//! transports reads a clock other than through [`Clock`].

mod clock;
mod hash;
pub mod headers;
mod identity;
mod percent;
mod refusal;

pub use clock::{Clock, ManualClock, Nanos, SystemClock, Timer, Wait};
pub use hash::{BlockHash, chain, chain_seed, xxh64};
pub use identity::{EndpointName, Slot, uuid_v4};
pub use percent::percent_decoded;
pub use refusal::{DropReason, ErrorCode, Refusal};
