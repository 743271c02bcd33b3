//! The messages of `envoy.service.ext_proc.v3`, as far as they concern us: field numbers are those of Envoy's `external_processor.proto`.

pub(crate) mod metadata;
pub(crate) mod request;
pub(crate) mod response;
