//! How far a string runs without a quotation mark, a backslash or a control character.

/// Bytes looked at together: small enough to stop early, large enough for the compiler to use vector registers.
const BLOCK: usize = 32;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Length of the longest prefix of `bytes` that stands for itself inside a JSON string.
#[inline]
pub(crate) fn plain_len(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let mut at = 0;
    for block in blocks {
        let mut special = 0;
        for &b in block {
            special |= u8::from(b == b'"') | u8::from(b == b'\\') | u8::from(b < 0x20);
        }
        if special != 0 {
            break;
        }
        at += BLOCK;
    }
    let (words, tail) = bytes[at..].as_chunks::<8>();
    for word in words {
        let mask = specials(u64::from_le_bytes(*word));
        if mask != 0 {
            return at + first(mask);
        }
        at += 8;
    }
    at + tail.iter().position(|&b| is_special(b)).unwrap_or(tail.len())
}

#[inline]
pub(super) fn is_special(b: u8) -> bool {
    b == b'"' || b == b'\\' || b < 0x20
}

/// A mask whose lowest set bit lies in the first special byte of `word`; zero when there is none. Bits above the lowest one may
/// be set by borrows and mean nothing.
#[inline]
pub(super) fn specials(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let slash = word ^ (ONES * b'\\' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let slash = slash.wrapping_sub(ONES) & !slash;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (quote | slash | control) & HIGHS
}

/// Index of the byte that the lowest set bit of `mask` lies in.
#[inline]
pub(super) fn first(mask: u64) -> usize {
    mask.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_special_byte_is_found_at_every_position_among_every_neighbour() {
        for len in [0, 1, 7, 8, 9, 31, 32, 33, 70] {
            for at in 0..len {
                for special in 0..=255u8 {
                    for filler in [b'a', 0x20, 0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xff] {
                        let mut bytes = vec![filler; len];
                        bytes[at] = special;
                        let want = if is_special(special) { at } else { len };
                        assert_eq!(plain_len(&bytes), want, "{special:#x} at {at} of {len} among {filler:#x}");
                    }
                }
            }
        }
    }
}
