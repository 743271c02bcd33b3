//! Where spans go (metrics and tracing 5.1): to an OpenTelemetry collector over gRPC, to stdout, or nowhere.
//!
//! [`Telemetry::start`] reads the standard `OTEL_*` variables and makes a [`Tracer`](pointsman_trace::Tracer) of them. Without `OTEL_TRACES_EXPORTER` nothing is
//! exported: a process that was told nothing must not print its spans among its log lines. Requests are traced all the same, so that what comes after them
//! finds its parent.
//!
//! Finished spans wait in a bounded queue for a thread of their own, which sends them in batches (`OTEL_BSP_*` change its bounds). A collector that is slow or
//! gone makes the queue run over, and spans are let go: no request waits, and none fails.

mod console;
mod error;
mod export;
mod otlp;
mod resource;
mod telemetry;

pub use error::TelemetryError;
pub use telemetry::{Build, Telemetry, Variables};
