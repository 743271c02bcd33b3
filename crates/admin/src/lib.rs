//! The admin listener: what the router decided, what it knows of its engines, which configuration is in force, its metrics, and profiles of the process.
//!
//! Everything a person looks at comes through here, from the command line and from a browser alike; `docs/api.md` documents each
//! key. [`View`] is what a pool must be able to tell (the router's pool implements it), [`serve`] puts HTTP/1.1 around it.
//!
//! The listener is for operators, not for clients, and it can take an engine out of service. So every request passes the [`guard`]
//! first: its `Host` must be one we answer to (or a web page could rebind its own name to our address), its `Origin` must be our own (or
//! any page could post here through somebody's browser), and a token can be demanded. In read-only mode nothing can be changed at all.
//!
//! Deliberately absent: any decision; and the text of a prompt, unless the process was started with `--show-prompts`.

mod endpoints;
mod extension;
pub mod guard;
mod http;
mod metrics_port;
mod page;
mod phases;
mod pool;
mod prefix;
mod presets;
mod profiles;
mod reply;
mod rescore;
mod routes;
mod server;
mod stream;
mod view;

pub use extension::{Admin, Extension};
pub use guard::Guard;
pub use http::TlsSource;
pub use metrics_port::{MetricsPort, serve_metrics};
pub use server::serve;
pub use view::{Holding, PluginState, Prefixes, View};

#[cfg(test)]
mod tests;
