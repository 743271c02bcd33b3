//! One engine that a request can be sent to.

use std::sync::Arc;

use pointsman_core::{EndpointName, Nanos, Slot};

use crate::{EndpointMeta, EngineState, Health, Load};

/// One `ip:port` that serves requests, with everything known about it.
///
/// When only its labels (or the like) change, a new `Endpoint` takes its place in the snapshot with the same slot and
/// id; the live state is shared between the two, so a request that began with the old one releases its load where it
/// was charged.
#[derive(Debug)]
pub struct Endpoint {
    /// Index into per-endpoint columns; reused after the endpoint left.
    pub slot: Slot,
    /// Unique for the life of the process, never reused.
    pub id: u64,
    /// When it joined the fleet.
    pub joined: Nanos,
    /// What discovery says.
    pub meta: Arc<EndpointMeta>,
    /// What its engine says.
    pub engine: Arc<EngineState>,
    /// What is in flight there.
    pub load: Arc<Load>,
    /// Whether it may be chosen.
    pub health: Arc<Health>,
}

impl Endpoint {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &EndpointName {
        &self.meta.name
    }

    /// Its `host:port`.
    #[must_use]
    pub fn host_port(&self) -> &str {
        self.meta.host_port()
    }

    /// Whether it may be chosen: one atomic load.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.health.ready()
    }

    /// Whether it has left the fleet. Check it before writing learned state under its slot.
    #[must_use]
    pub fn left(&self) -> bool {
        self.health.left()
    }

    /// The same endpoint with other words about it.
    pub(crate) fn described(&self, meta: EndpointMeta) -> Self {
        Self {
            slot: self.slot,
            id: self.id,
            joined: self.joined,
            meta: Arc::new(meta),
            engine: Arc::clone(&self.engine),
            load: Arc::clone(&self.load),
            health: Arc::clone(&self.health),
        }
    }
}
