//! `pointsman epp` as a process: its flags, ports, health, TLS, endpoints file and end, held against what the Go picker was recorded to do.
//!
//! `differences.json` beside this file lists where it does otherwise on purpose, with the `Wart:` that asks for it. The second list in
//! `docs/migrate-from-llm-d.md` is made from it.

mod docs;
mod flags;
mod health;
mod metrics_port;
mod reload;
mod request;
mod stop;
mod support;
mod tls;
