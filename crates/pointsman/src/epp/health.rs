//! What the health services answer (request-lifecycle 6.5).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pointsman_extproc::SERVICE;
use pointsman_grpc::health::{Health, Serving};

/// Whether the process is draining.
#[derive(Clone, Debug, Default)]
pub(super) struct Draining(Arc<AtomicBool>);

impl Draining {
    pub(super) fn begin(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn serving(&self) -> Serving {
        if self.0.load(Ordering::Relaxed) { Serving::NotServing } else { Serving::Serving }
    }
}

/// Of the health port. The pool is known and every parser fits it: there is no InferencePool object that could be missing or say otherwise.
pub(super) struct HealthPort(pub(super) Draining);

impl Health for HealthPort {
    fn status(&self, service: &str) -> Option<Serving> {
        // A kubelet must not restart what is only draining.
        Some(if service == "liveness" { Serving::Serving } else { self.0.serving() })
    }

    fn services(&self) -> &[&'static str] {
        &[SERVICE]
    }
}

/// Of the external processor's own port, by which Envoy asks.
pub(super) struct ServingPort(pub(super) Draining);

impl Health for ServingPort {
    fn status(&self, service: &str) -> Option<Serving> {
        ["", SERVICE].contains(&service).then(|| self.0.serving())
    }

    fn services(&self) -> &[&'static str] {
        &["", SERVICE]
    }
}
