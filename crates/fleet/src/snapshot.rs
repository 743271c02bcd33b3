//! A fleet at one moment.

use std::collections::HashMap;
use std::sync::Arc;

use pointsman_core::EndpointName;

use crate::Endpoint;

/// The endpoints of a fleet at one moment: the list does not change, the live state behind each entry does.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Grows with every change of the list.
    pub version: u64,
    /// All endpoints, ready or not, in the order of arrival.
    pub endpoints: Vec<Arc<Endpoint>>,
    /// Exclusive upper bound of the slots in use: the length a per-endpoint column needs.
    pub slots: usize,
    by_host_port: HashMap<Arc<str>, u32>,
}

impl Snapshot {
    pub(crate) fn new(version: u64, endpoints: Vec<Arc<Endpoint>>) -> Self {
        let slots = endpoints.iter().map(|e| e.slot.index() + 1).max().unwrap_or(0);
        let mut by_host_port = HashMap::with_capacity(endpoints.len());
        for (at, endpoint) in endpoints.iter().enumerate() {
            by_host_port.entry(Arc::clone(endpoint.meta.host_port_shared())).or_insert(at as u32);
        }
        Self { version, endpoints, slots, by_host_port }
    }

    /// The endpoint at `host:port`; of several names for one address, the first to arrive.
    #[must_use]
    pub fn at(&self, host_port: &str) -> Option<&Arc<Endpoint>> {
        self.by_host_port.get(host_port).and_then(|at| self.endpoints.get(*at as usize))
    }

    /// The endpoint of a name. Walks the list: for people, not for requests.
    #[must_use]
    pub fn named(&self, name: &EndpointName) -> Option<&Arc<Endpoint>> {
        self.endpoints.iter().find(|e| e.name() == name)
    }

    /// How many endpoints may be chosen now.
    #[must_use]
    pub fn ready(&self) -> usize {
        self.endpoints.iter().filter(|e| e.ready()).count()
    }
}
