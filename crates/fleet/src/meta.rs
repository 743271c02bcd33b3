//! What discovery says about an endpoint.

use std::sync::{Arc, OnceLock};

use pointsman_core::EndpointName;

use crate::Labels;

/// How an endpoint is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Plain HTTP.
    #[default]
    Http,
    /// HTTP over TLS.
    Https,
}

impl Scheme {
    /// `http` or `https`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

/// An endpoint as discovery knows it. Fill in the fields after [`EndpointMeta::new`]; inside a fleet it is immutable.
#[derive(Clone, Debug)]
pub struct EndpointMeta {
    /// Unique in the fleet.
    pub name: EndpointName,
    /// IP address or host name, without port and without brackets.
    pub address: String,
    /// Port of the engine's API.
    pub port: u16,
    /// Labels of the pod or of the endpoints file.
    pub labels: Labels,
    /// How to speak to it.
    pub scheme: Scheme,
    /// `host:port` of the metrics page where that is not the API's own.
    pub metrics_address: Option<String>,
    /// Address of the machine it runs on, where that is known.
    pub node_address: Option<String>,
    /// Data-parallel rank inside the pod, from 0.
    pub rank: u32,
    /// Why discovery says that it is not ready; `None` when it is. Becomes
    /// [`Condition::Discovery`](crate::Condition::Discovery).
    pub not_ready: Option<Arc<str>>,
    host_port: OnceLock<Arc<str>>,
}

impl EndpointMeta {
    /// An endpoint without labels, plain HTTP, rank 0, ready.
    pub fn new(name: EndpointName, address: impl Into<String>, port: u16) -> Self {
        Self {
            name,
            address: address.into(),
            port,
            labels: Labels::default(),
            scheme: Scheme::default(),
            metrics_address: None,
            node_address: None,
            rank: 0,
            not_ready: None,
            host_port: OnceLock::new(),
        }
    }

    /// `host:port`, an IPv6 address in brackets. Made once: call it only when address and port are final.
    #[must_use]
    pub fn host_port(&self) -> &str {
        self.host_port_shared()
    }

    /// [`EndpointMeta::host_port`], to keep.
    #[must_use]
    pub fn host_port_shared(&self) -> &Arc<str> {
        self.host_port.get_or_init(|| self.host_and(self.port).into())
    }

    /// `host:port` with another port.
    #[must_use]
    pub fn host_and(&self, port: u16) -> String {
        let address = &self.address;
        if address.contains(':') && !address.starts_with('[') {
            format!("[{address}]:{port}")
        } else {
            format!("{address}:{port}")
        }
    }

    /// Where the metrics page is: the override, else [`EndpointMeta::host_port`].
    #[must_use]
    pub fn metrics_host_port(&self) -> &str {
        self.metrics_address.as_deref().unwrap_or_else(|| self.host_port())
    }

    /// Forgets a `host:port` made before the fields were final, and makes it anew.
    pub(crate) fn seal(mut self) -> Self {
        self.host_port = OnceLock::new();
        let _ = self.host_port();
        self
    }

    /// Whether both stand for the same engine process: same name, address and port.
    pub(crate) fn is_same_engine(&self, other: &Self) -> bool {
        self.name == other.name && self.port == other.port && self.address == other.address
    }
}

/// By what discovery said; the remembered `host:port` does not count.
impl PartialEq for EndpointMeta {
    fn eq(&self, other: &Self) -> bool {
        self.is_same_engine(other)
            && self.labels == other.labels
            && self.scheme == other.scheme
            && self.metrics_address == other.metrics_address
            && self.node_address == other.node_address
            && self.rank == other.rank
            && self.not_ready == other.not_ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_addresses_are_bracketed_once() {
        for (address, want) in [
            ("10.0.0.7", "10.0.0.7:8000"),
            ("engine-3.local", "engine-3.local:8000"),
            ("fd00::7", "[fd00::7]:8000"),
            ("[fd00::7]", "[fd00::7]:8000"),
        ] {
            let meta = EndpointMeta::new(EndpointName::new("default", "a"), address, 8000);
            assert_eq!(meta.host_port(), want);
            assert_eq!(meta.metrics_host_port(), want);
        }
    }

    #[test]
    fn the_metrics_address_overrides_the_api_address() {
        let mut meta = EndpointMeta::new(EndpointName::new("default", "a"), "10.0.0.7", 8000);
        meta.metrics_address = Some("10.0.0.7:9000".into());
        assert_eq!((meta.host_port(), meta.metrics_host_port()), ("10.0.0.7:8000", "10.0.0.7:9000"));
    }

    #[test]
    fn sealing_drops_a_host_port_made_too_early() {
        let mut meta = EndpointMeta::new(EndpointName::new("default", "a"), "10.0.0.7", 8000);
        let _ = meta.host_port();
        meta.port = 8001;
        assert_eq!(meta.seal().host_port(), "10.0.0.7:8001");
    }
}
