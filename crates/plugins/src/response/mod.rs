//! Plugins that see responses (plugin specification 10.5, 10.6).

pub mod destination_endpoint_served_verifier;
pub mod request_attribute_reporter;
