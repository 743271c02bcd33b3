//! Labels of an endpoint.

use std::sync::Arc;

/// A small map from label to value, sorted by label. Cloning shares it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(Arc<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// The value of a label.
    #[must_use]
    pub fn get(&self, label: &str) -> Option<&str> {
        let at = self.0.binary_search_by(|(have, _)| (**have).cmp(label)).ok()?;
        Some(&self.0[at].1)
    }

    /// Pairs of label and value, by label.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(label, value)| (&**label, &**value))
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Of a label that is given twice, the last value stays.
impl<K: Into<Arc<str>>, V: Into<Arc<str>>> FromIterator<(K, V)> for Labels {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut pairs: Vec<(Arc<str>, Arc<str>)> = pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        // Stable sort of the reversed list: the last of equals comes first, and `dedup` keeps the first.
        pairs.reverse();
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        pairs.dedup_by(|later, kept| later.0 == kept.0);
        Self(pairs.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_name_and_listed_in_order() {
        let labels: Labels = [("role", "decode"), ("app", "vllm"), ("zone", "")].into_iter().collect();
        assert_eq!(labels.get("role"), Some("decode"));
        assert_eq!(labels.get("zone"), Some(""));
        assert_eq!(labels.get("rol"), None);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("app", "vllm"), ("role", "decode"), ("zone", "")]);
        assert_eq!((labels.len(), labels.is_empty(), Labels::default().is_empty()), (3, false, true));
    }

    #[test]
    fn the_last_of_two_equal_labels_stays() {
        let labels: Labels = [("a", "1"), ("b", "2"), ("a", "3")].into_iter().collect();
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "3"), ("b", "2")]);
    }
}
