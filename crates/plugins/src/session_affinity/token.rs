//! The token that tells which endpoint served a session.
//!
//! Plain, it is the base64 of `namespace/name`: whoever reads it learns the endpoint's name, and whoever knows a name can make one. Sealed with a key, it is
//! a tag of that name (HMAC-SHA-256, the first 16 bytes): it tells nothing, and cannot be made without the key. Every picker that has the key makes the same
//! tags.

use arc_swap::ArcSwap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pointsman_core::EndpointName;
use pointsman_fleet::Endpoint;
use ring::hmac;
use std::collections::HashMap;
use std::fmt;

/// Longest token that is looked at, in bytes.
const LONGEST: usize = 1024;

/// The plain token of an endpoint.
pub(super) fn plain(endpoint: &EndpointName) -> String {
    STANDARD.encode(endpoint.to_string())
}

/// What a token says. `None` when it says nothing.
pub(super) fn decode(token: &str) -> Option<Vec<u8>> {
    if token.is_empty() || token.len() > LONGEST {
        return None;
    }
    STANDARD.decode(token).ok()
}

/// Whether a plain token's content is the name of `endpoint`.
pub(super) fn is_name(content: &[u8], endpoint: &EndpointName) -> bool {
    let rest = content.strip_prefix(endpoint.namespace.as_bytes());
    rest.and_then(|rest| rest.strip_prefix(b"/")) == Some(endpoint.name.as_bytes())
}

type Tag = [u8; 16];

/// What tokens are sealed with.
pub(super) struct Key {
    key: hmac::Key,
    /// Tells keys apart, and nothing about them.
    id: u64,
}

/// Without the key.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    pub(super) fn new(key: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
        let id = hmac::sign(&key, b"").as_ref().first_chunk().copied().map_or(0, u64::from_ne_bytes);
        Self { key, id }
    }

    fn tag(&self, endpoint: &EndpointName) -> Tag {
        let mac = hmac::sign(&self.key, endpoint.to_string().as_bytes());
        mac.as_ref().first_chunk().copied().expect("SHA-256 has 32 bytes")
    }
}

/// Tags that were made, by key and endpoint id: every request looks at those of all candidates, without a lock.
#[derive(Debug, Default)]
pub(super) struct Tags(ArcSwap<HashMap<(u64, u64), Tag>>);

impl Tags {
    fn of(&self, key: &Key, endpoint: &Endpoint) -> Tag {
        let place = (key.id, endpoint.id);
        if let Some(tag) = self.0.load().get(&place) {
            return *tag;
        }
        let tag = key.tag(endpoint.name());
        if !endpoint.left() {
            self.0.rcu(|tags| {
                let mut more = HashMap::clone(tags);
                more.insert(place, tag);
                more
            });
        }
        tag
    }

    /// The sealed token of an endpoint.
    pub(super) fn token(&self, key: &Key, endpoint: &Endpoint) -> String {
        STANDARD.encode(self.of(key, endpoint))
    }

    /// Whether a sealed token's content is the tag of `endpoint`. Takes the same time wherever the two differ.
    pub(super) fn is_of(&self, key: &Key, content: &[u8], endpoint: &Endpoint) -> bool {
        let Ok(content) = Tag::try_from(content) else { return false };
        let pairs = self.of(key, endpoint).into_iter().zip(content);
        pairs.fold(0, |differs, (a, b)| differs | (a ^ b)) == 0
    }

    /// The endpoint is gone.
    pub(super) fn forget(&self, endpoint: &Endpoint) {
        let known = |tags: &HashMap<(u64, u64), Tag>| tags.keys().any(|(_, id)| *id == endpoint.id);
        if known(&self.0.load()) {
            self.0.rcu(|tags| {
                let mut fewer = HashMap::clone(tags);
                fewer.retain(|(_, id), _| *id != endpoint.id);
                fewer
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, endpoint};
    use proptest::prelude::*;

    #[test]
    fn a_plain_token_is_the_base64_of_the_name() {
        let name = EndpointName::new("default", "pod-1");
        assert_eq!(plain(&name), "ZGVmYXVsdC9wb2QtMQ==");
        assert!(is_name(&decode("ZGVmYXVsdC9wb2QtMQ==").expect("a token"), &name));
        assert!(
            !is_name(b"default/pod-2", &name) && !is_name(b"default", &name) && !is_name(b"default/pod-1/x", &name)
        );
    }

    #[test]
    fn what_is_no_base64_says_nothing() {
        for token in ["", "%%%", "ZGVmYXVsdC9wb2QtMQ", "ZGV\n", &"A".repeat(1028)] {
            assert_eq!(decode(token), None, "{token:?}");
        }
    }

    #[test]
    fn a_sealed_token_fits_its_endpoint_and_key_only() {
        let bench = Bench::new(["a", "b"].map(endpoint));
        let [a, b] = bench.endpoints() else { panic!("two endpoints") };
        let (tags, key, other) = (Tags::default(), Key::new("a key of sixteen"), Key::new("another key, too"));
        let token = tags.token(&key, a);
        let content = decode(&token).expect("base64");
        assert!(!String::from_utf8_lossy(&content).contains("default"));
        assert!(tags.is_of(&key, &content, a) && Tags::default().is_of(&Key::new("a key of sixteen"), &content, a));
        assert!(!tags.is_of(&key, &content, b) && !tags.is_of(&other, &content, a));
        assert!(!tags.is_of(&key, b"default/a", a), "a plain token is none");
        tags.forget(a);
        assert_eq!(tags.0.load().len(), 1, "that of the other endpoint is left");
    }

    proptest! {
        #[test]
        fn whatever_a_client_sends_is_read_without_a_panic(token in ".{0,80}") {
            let name = EndpointName::new("default", "a");
            let _ = decode(&token).map(|content| is_name(&content, &name));
        }

        #[test]
        fn every_name_comes_back(namespace in "[a-z0-9-]{1,20}", pod in "[a-z0-9./-]{1,40}") {
            let name = EndpointName::new(namespace, pod);
            prop_assert!(is_name(&decode(&plain(&name)).expect("base64"), &name));
        }
    }
}
