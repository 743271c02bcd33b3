//! The transport against recordings of the Go picker and of Envoy, against properties, and case by case.

mod cases;
mod envoy;
mod goldens;
mod messages;
mod process;
mod properties;
#[path = "../../../router/tests/support/mod.rs"]
mod recordings;
mod waiting;
