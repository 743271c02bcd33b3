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

/// These bits in the shape of a version 4 UUID, which is what people's tools expect of an id.
#[must_use]
pub fn uuid_v4(bits: u128) -> [u8; 36] {
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let mut id = [b'-'; 36];
    let places = (0..36).filter(|place| !matches!(place, 8 | 13 | 18 | 23));
    for (digit, place) in places.enumerate() {
        id[place] = b"0123456789abcdef"[(bits >> (124 - 4 * digit)) as usize & 0xf];
    }
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_its_bits_but_for_version_and_variant() {
        let id = uuid_v4(0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
        assert_eq!(std::str::from_utf8(&id).expect("ASCII"), "01234567-89ab-4def-8123-456789abcdef");
        let id = uuid_v4(u128::MAX);
        assert_eq!(std::str::from_utf8(&id).expect("ASCII"), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
