//! Names and numbers of endpoints.

use std::fmt;
use std::sync::Arc;

/// Dense number of an endpoint inside one pool, given on arrival and reused after it left. An index into per-endpoint columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// As an index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// `namespace/name`, unique in a pool. One endpoint is one `ip:port`, which is one data-parallel rank of a pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndpointName {
    /// Kubernetes namespace; `default` where there is none.
    pub namespace: Arc<str>,
    /// Name inside the namespace.
    pub name: Arc<str>,
}

impl EndpointName {
    /// A name in a namespace.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }
}

impl fmt::Display for EndpointName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
