//! Deterministic text: the same seed gives the same bytes on every machine and in every run.

/// SplitMix64 (Steele, Lea and Flood, 2014): a full-period mixer of a counter, enough to make text that differs.
pub(crate) struct Draw(u64);

impl Draw {
    /// Draws that depend on `seed` only.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `low..high`; the bias of the remainder is far below what these ranges could show.
    pub(crate) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }
}

/// Everyday words: a byte-level tokenizer makes a token of four to five bytes from them, as from real prose.
const WORDS: [&str; 64] = [
    "the", "of", "and", "to", "in", "that", "for", "with", "this", "from", "which", "work", "form", "any", "such",
    "other", "shall", "license", "copy", "source", "object", "terms", "under", "notice", "party", "code", "program",
    "user", "value", "class", "return", "method", "name", "list", "file", "line", "time", "string", "number", "type",
    "data", "test", "error", "path", "module", "import", "self", "not", "are", "may", "must", "have", "been", "made",
    "right", "change", "include", "public", "general", "version", "software", "library", "provide", "require",
];

/// `bytes` bytes of prose made from `seed`.
pub(crate) fn prose(seed: u64, bytes: usize) -> String {
    let mut draw = Draw::new(seed);
    let mut text = String::with_capacity(bytes + 16);
    while text.len() < bytes {
        if !text.is_empty() {
            text.push(' ');
        }
        text.push_str(WORDS[usize::try_from(draw.between(0, WORDS.len() as u64)).expect("an index below 64")]);
    }
    text.truncate(bytes);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_has_the_asked_length_and_depends_on_its_seed_only() {
        for bytes in [0, 1, 7, 2_048] {
            assert_eq!(prose(3, bytes).len(), bytes);
        }
        assert_eq!(prose(3, 500), prose(3, 500));
        assert_ne!(prose(3, 64), prose(4, 64));
    }

    #[test]
    fn prose_needs_no_escaping_in_json() {
        let text = prose(9, 4_096);
        assert_eq!(serde_json::to_string(&text).unwrap(), format!("\"{text}\""));
    }
}
