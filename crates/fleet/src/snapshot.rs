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
    /// Names and addresses of `endpoints`, for whatever outlives them.
    pub directory: Arc<Directory>,
    by_host_port: HashMap<Arc<str>, u32>,
}

/// What the endpoints of a snapshot were called. Decision records keep this rather than the endpoints: it holds no state and no slot.
#[derive(Debug, Default)]
pub struct Directory(Box<[(Arc<str>, Arc<str>)]>);

impl Directory {
    /// Name and `host:port` of the endpoint at that place.
    #[must_use]
    pub fn at(&self, place: u32) -> Option<(&Arc<str>, &Arc<str>)> {
        self.0.get(place as usize).map(|(name, address)| (name, address))
    }

    /// Bytes it takes, near enough for a budget.
    #[must_use]
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.0.len() * size_of::<(Arc<str>, Arc<str>)>()
    }
}

impl Snapshot {
    pub(crate) fn new(version: u64, endpoints: Vec<Arc<Endpoint>>) -> Self {
        let slots = endpoints.iter().map(|e| e.slot.index() + 1).max().unwrap_or(0);
        let mut by_host_port = HashMap::with_capacity(endpoints.len());
        for (at, endpoint) in endpoints.iter().enumerate() {
            by_host_port.entry(Arc::clone(endpoint.meta.host_port_shared())).or_insert(at as u32);
        }
        let names = endpoints.iter().map(|e| (Arc::clone(&e.name().name), Arc::clone(e.meta.host_port_shared())));
        let directory = Arc::new(Directory(names.collect()));
        Self { version, endpoints, slots, directory, by_host_port }
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
