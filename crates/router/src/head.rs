//! What a transport hands over before the body.

use pointsman_core::Nanos;
use std::sync::Arc;

/// The head of a request.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// `gateway` or `extproc`.
    pub transport: &'static str,
    /// HTTP method.
    pub method: Arc<str>,
    /// Path without query.
    pub path: Arc<str>,
    /// Headers with lower-cased names, in order of arrival.
    pub headers: Arc<[(Box<str>, Box<str>)]>,
    /// When it arrived.
    pub received: Nanos,
    /// The only endpoints that may serve it (`ip:port` or `ip`), where the proxy says.
    pub subset: Option<Vec<String>>,
}

impl RequestHead {
    /// The last header of that (lower-case) name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().rev().find(|(n, _)| &**n == name).map(|(_, v)| &**v)
    }

    /// A header with an old spelling: the new one wins when it is there, even empty.
    #[must_use]
    pub fn aliased(&self, name: &str, old: &str) -> Option<&str> {
        self.header(name).or_else(|| self.header(old))
    }
}
