//! A cache without end that all engines share: the upper bound on hits.

use hashbrown::HashSet;

/// Keys of every block that any engine ever computed.
#[derive(Debug, Default)]
pub(super) struct Pooled(HashSet<u64>);

impl Pooled {
    /// Length of the longest prefix that is there.
    pub(super) fn find(&self, keys: &[u64]) -> usize {
        keys.iter().take_while(|key| self.0.contains(*key)).count()
    }

    pub(super) fn keep(&mut self, keys: &[u64]) {
        self.0.extend(keys);
    }
}
