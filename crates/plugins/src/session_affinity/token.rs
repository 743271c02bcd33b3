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
use std::sync::Arc;

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

/// Makes sealed tokens, and remembers them: every request looks at those of all candidates, without a lock.
#[derive(Debug, Default)]
pub(super) struct Seal(ArcSwap<Tags>);

#[derive(Clone, Default)]
struct Tags {
    key: Option<hmac::Key>,
    /// The key as written, to see whether it is another one.
    written: Vec<u8>,
    /// By endpoint id.
    tags: HashMap<u64, Tag>,
}

/// Without the key.
impl fmt::Debug for Tags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tags").field("tags", &self.tags.len()).finish_non_exhaustive()
    }
}

impl Tags {
    fn make(&self, endpoint: &Endpoint) -> Option<Tag> {
        let mac = hmac::sign(self.key.as_ref()?, endpoint.name().to_string().as_bytes());
        mac.as_ref().first_chunk().copied()
    }
}

impl Seal {
    /// Seals with this key from now on.
    pub(super) fn set_key(&self, key: &str) {
        let tags = self.0.load();
        if tags.key.is_none() || tags.written != key.as_bytes() {
            let key = key.as_bytes();
            let sealing = Some(hmac::Key::new(hmac::HMAC_SHA256, key));
            self.0.store(Arc::new(Tags { key: sealing, written: key.to_vec(), tags: HashMap::new() }));
        }
    }

    fn tag(&self, endpoint: &Endpoint) -> Option<Tag> {
        let tags = self.0.load();
        if let Some(tag) = tags.tags.get(&endpoint.id) {
            return Some(*tag);
        }
        let made = tags.make(endpoint)?;
        if !endpoint.left() {
            self.0.rcu(|tags| {
                let mut more = Tags::clone(tags);
                more.tags.extend(tags.make(endpoint).map(|tag| (endpoint.id, tag)));
                more
            });
        }
        Some(made)
    }

    /// The sealed token of an endpoint.
    pub(super) fn token(&self, endpoint: &Endpoint) -> Option<String> {
        self.tag(endpoint).map(|tag| STANDARD.encode(tag))
    }

    /// Whether a sealed token's content is the tag of `endpoint`. Takes the same time wherever the two differ.
    pub(super) fn is_tag(&self, content: &[u8], endpoint: &Endpoint) -> bool {
        let Ok(content) = Tag::try_from(content) else { return false };
        let differs = |tag: Tag| tag.iter().zip(content).fold(0, |all, (a, b)| all | (a ^ b));
        self.tag(endpoint).is_some_and(|tag| differs(tag) == 0)
    }

    /// The endpoint is gone.
    pub(super) fn forget(&self, endpoint: &Endpoint) {
        if self.0.load().tags.contains_key(&endpoint.id) {
            self.0.rcu(|tags| {
                let mut fewer = Tags::clone(tags);
                fewer.tags.remove(&endpoint.id);
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
        let (seal, same, other) = (Seal::default(), Seal::default(), Seal::default());
        assert_eq!(seal.token(a), None, "without a key");
        seal.set_key("a key of sixteen");
        same.set_key("a key of sixteen");
        other.set_key("another key, too");
        let token = seal.token(a).expect("a token");
        let content = decode(&token).expect("base64");
        assert!(!String::from_utf8_lossy(&content).contains("default"));
        assert!(seal.is_tag(&content, a) && same.is_tag(&content, a));
        assert!(!seal.is_tag(&content, b) && !other.is_tag(&content, a));
        assert!(!seal.is_tag(b"default/a", a), "a plain token is none");
        seal.set_key("another key, too");
        assert_eq!(seal.token(a), other.token(a), "what was made with the old key is forgotten");
        seal.forget(a);
        assert!(seal.0.load().tags.is_empty());
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
