//! Connections to engines.
//!
//! One [`Link`] per endpoint keeps its idle connections and what is remembered of its failures. An own pool instead of a general one because three things must
//! be known that a general one hides: whether a connection was used before (its failure may be its age, not its engine), which endpoint it belongs to when that
//! leaves the fleet, and that finding it takes no lock shared by all requests.

mod connect;
mod kept;
mod link;

pub(crate) use connect::Connector;
pub(crate) use kept::Kept;
pub(crate) use link::{Link, Links, Sender};
