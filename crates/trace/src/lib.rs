//! Distributed tracing without I/O: what a request says of its trace, whether it is sampled, and its spans as plain data.
//!
//! A [`Tracer`] is asked once per request, with the request's headers ([`Incoming`]). It answers with the [`SpanContext`] of a new span, which the request
//! carries on in its own `traceparent`, sampled or not. Spans are values that whoever traces fills in when what they tell of is over; the tracer hands them to
//! its [`Sink`]. So a request that is not sampled costs a random number and a look at its headers, and allocates nothing.
//!
//! Formats are those of W3C Trace Context and Baggage; names and attributes are in section 5 of the metrics and tracing specification.

mod baggage;
mod context;
mod incoming;
mod sampler;
mod span;
mod state;
mod tracer;

pub use context::{SpanContext, SpanId, TraceId, TraceParent};
pub use incoming::{BAGGAGE, Carried, HEADERS, Incoming, TRACEPARENT, TRACESTATE};
pub use sampler::{DEFAULT_RATIO, Sampler};
pub use span::{Kind, Span, Status, Value};
pub use tracer::{Sink, Tracer};
