//! Multimodal items that a pre-tokenized request lists itself.

use super::{Feature, MAX_FEATURES};
use std::collections::HashMap;

/// Longest supplied hash that is kept, in bytes.
const MAX_HASH: usize = 256;

/// `mm_hashes` and `mm_placeholders` of `features`.
#[derive(Debug, Default)]
pub(super) struct Supplied {
    modality: String,
    hash: Vec<u8>,
    hashes: Vec<(String, String)>,
    placeholder: (Option<u64>, Option<u64>),
    placeholders: Vec<(String, u64, u64)>,
}

impl Supplied {
    /// The list of this modality begins.
    pub(super) fn modality(&mut self, name: &[u8]) {
        self.modality = String::from_utf8_lossy(name).into_owned();
    }

    pub(super) fn begin_hash(&mut self) {
        self.hash.clear();
    }

    pub(super) fn hash(&mut self, piece: &[u8]) {
        let room = MAX_HASH - self.hash.len();
        self.hash.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    pub(super) fn end_hash(&mut self) {
        if self.hashes.len() < MAX_FEATURES {
            self.hashes.push((self.modality.clone(), String::from_utf8_lossy(&self.hash).into_owned()));
        }
    }

    pub(super) fn begin_placeholder(&mut self) {
        self.placeholder = (None, None);
    }

    pub(super) fn offset(&mut self, tokens: Option<u64>) {
        self.placeholder.0 = tokens;
    }

    pub(super) fn length(&mut self, tokens: Option<u64>) {
        self.placeholder.1 = tokens;
    }

    pub(super) fn end_placeholder(&mut self) {
        if let (Some(offset), Some(length)) = self.placeholder
            && self.placeholders.len() < MAX_FEATURES
        {
            self.placeholders.push((self.modality.clone(), offset, length));
        }
    }

    /// One feature per placeholder, with the hash of the same rank in its modality, by offset.
    pub(super) fn features(self) -> Vec<Feature> {
        let mut hashes: HashMap<String, std::vec::IntoIter<String>> = HashMap::new();
        let mut lists: HashMap<String, Vec<String>> = HashMap::new();
        for (modality, hash) in self.hashes {
            lists.entry(modality).or_default().push(hash);
        }
        for (modality, list) in lists {
            hashes.insert(modality, list.into_iter());
        }
        let mut features: Vec<Feature> = self
            .placeholders
            .into_iter()
            .map(|(modality, offset, length)| Feature {
                hash: hashes.get_mut(&modality).and_then(Iterator::next).unwrap_or_default(),
                modality: modality.into(),
                offset,
                length,
            })
            .collect();
        features.sort_by_key(|f| f.offset);
        features
    }
}
