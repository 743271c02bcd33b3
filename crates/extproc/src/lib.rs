//! The Endpoint Picker: Envoy's external processing (`envoy.service.ext_proc.v3`), as one more mouth of the router.
//!
//! One call of the proxy is one HTTP request. An [`Exchange`] translates it, without I/O: messages of the proxy go to the router (head, body as it
//! arrives, what became of the response), the router's decision becomes the destination header and metadata, and bodies pass by reference. It decides
//! nothing about endpoints. The way of a request, and where to read it:
//!
//! 1. `head`: request headers become a [`RequestHead`](pointsman_router::RequestHead).
//! 2. `exchange`: the ladder of states; which message may be answered with what, in each body mode.
//! 3. `answer`: a decision as header mutation and dynamic metadata, a refusal as immediate response.
//! 4. `proto`: the messages, read and written by hand so that bodies are not copied.
//!
//! [`ExtProc`] is the gRPC service around it, with the health service beside.
//!
//! Deliberately absent: any buffering of responses, any change to bytes but the model's name, any retry (that is the proxy's).

mod answer;
mod budget;
mod exchange;
mod head;
mod options;
mod proto;
mod service;

pub use exchange::Exchange;
pub use options::{Compat, ExtProcOptions};
pub use proto::request::{BodyMode, Modes};
pub use service::{ExtProc, SERVICE, Shared};
