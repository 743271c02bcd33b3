//! Label values that clients control, kept to a bounded number (metrics 1.3).

use parking_lot::RwLock;
use std::collections::HashSet;
use std::sync::Arc;

/// Distinct values admitted; further ones become `other`.
pub(super) const MAX: usize = 1000;
/// Longest value in bytes that is admitted.
const MAX_LENGTH: usize = 256;
/// What further values become.
pub(super) const OTHER: &str = "other";

/// Admits the first [`MAX`] non-empty values for the life of the process.
#[derive(Debug, Default)]
pub(super) struct Bounded(RwLock<HashSet<Arc<str>>>);

impl Bounded {
    /// The value itself, or `other`. The empty value passes and takes no place.
    pub(super) fn admit(&self, value: &str) -> Arc<str> {
        if value.is_empty() {
            return "".into();
        }
        {
            let admitted = self.0.read();
            if let Some(known) = admitted.get(value) {
                return Arc::clone(known);
            }
            if admitted.len() >= MAX || value.len() > MAX_LENGTH {
                return OTHER.into();
            }
        }
        let mut admitted = self.0.write();
        if let Some(known) = admitted.get(value) {
            return Arc::clone(known);
        }
        if admitted.len() >= MAX {
            return OTHER.into();
        }
        let value: Arc<str> = value.into();
        admitted.insert(Arc::clone(&value));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn br_36_the_first_thousand_values_keep_their_names_and_the_rest_is_other() {
        let b = Bounded::default();
        for i in 0..5000 {
            let value = format!("m{i}");
            let want = if i < MAX { value.clone() } else { OTHER.to_owned() };
            assert_eq!(*b.admit(&value), *want);
        }
        assert_eq!(&*b.admit("m5"), "m5");
        assert_eq!(&*b.admit(""), "");
        assert!(b.0.read().len() <= MAX);
    }
}
