//! What a simulated model says: words of no meaning, four bytes each, so that by the four-byte rule a text of n tokens counts n.

const WORDS: [&str; 32] = [
    " arc", " bay", " cab", " day", " elm", " fig", " gap", " hub", " ink", " jar", " key", " log", " map", " net",
    " oak", " pin", " quo", " ram", " set", " toe", " urn", " van", " way", " yew", " zip", " ash", " bow", " cog",
    " dew", " eve", " fir", " gas",
];

/// The text of one answer, token by token.
#[derive(Clone, Debug)]
pub(crate) enum Text {
    /// The word of each position follows from this number.
    Words(u64),
    /// Pieces of a given text.
    Echo(Vec<String>),
}

impl Text {
    /// Cuts `text` into tokens of about four bytes, never inside a character. At most `most`.
    pub(crate) fn echo(text: &str, most: usize) -> Self {
        let mut pieces = Vec::new();
        let mut piece = String::new();
        for c in text.chars() {
            if !piece.is_empty() && piece.len() + c.len_utf8() > 4 {
                pieces.push(std::mem::take(&mut piece));
                if pieces.len() >= most {
                    return Self::Echo(pieces);
                }
            }
            piece.push(c);
        }
        if !piece.is_empty() || pieces.is_empty() {
            pieces.push(piece);
        }
        Self::Echo(pieces)
    }

    /// Tokens of a given text; `None` when the text has no end of its own.
    pub(crate) fn own_length(&self) -> Option<u64> {
        match self {
            Self::Words(_) => None,
            Self::Echo(pieces) => Some(pieces.len() as u64),
        }
    }

    /// Tokens `from..to`.
    pub(crate) fn piece(&self, from: u64, to: u64) -> String {
        match self {
            Self::Words(seed) => (from..to).map(|i| word(*seed, i)).collect(),
            Self::Echo(pieces) => {
                let at = |i: u64| (i as usize).min(pieces.len());
                pieces[at(from)..at(to)].concat()
            }
        }
    }
}

fn word(seed: u64, position: u64) -> &'static str {
    let scattered = seed.wrapping_add(position).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    WORDS[(scattered >> 59) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_four_bytes_long() {
        assert!(WORDS.iter().all(|w| w.len() == 4), "{:?}", WORDS.iter().find(|w| w.len() != 4));
        assert_eq!(Text::Words(9).piece(0, 37).len(), 4 * 37);
    }

    #[test]
    fn pieces_put_together_are_the_whole() {
        for text in [Text::Words(3), Text::echo("naïve café — done", 100)] {
            let whole = text.piece(0, 50);
            assert_eq!(text.piece(0, 7) + &text.piece(7, 50), whole);
        }
    }

    #[test]
    fn an_echo_is_cut_between_characters() {
        let Text::Echo(pieces) = Text::echo("ab\u{1f682}cde", 100) else { panic!("an echo") };
        assert_eq!(pieces, ["ab", "\u{1f682}", "cde"]);
        let Text::Echo(pieces) = Text::echo("", 100) else { panic!("an echo") };
        assert_eq!(pieces, [""]);
        let Text::Echo(pieces) = Text::echo("abcdefghijkl", 2) else { panic!("an echo") };
        assert_eq!(pieces, ["abcd", "efgh"]);
    }
}
