//! Hooks that are nothing else: who sees a request before or after the decision, and writes something down.

pub mod agent_identity;
pub mod disagg_headers_handler;
