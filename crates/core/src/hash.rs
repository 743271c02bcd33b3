//! Block hashes of the approximate prefix index, bit-exact with llm-d's (vectors V1 to V6 of the plugin specification).
//!
//! A prompt is cut into blocks of `n` tokens. The content hash of a block is XXH64 over its little-endian `u32` tokens. The hash of
//! block `i` is XXH64 over its content hash and the hash of block `i - 1`; block -1 stands for model and cache salt.

use std::fmt;

/// Identity of one block of a prompt, everything before it included.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockHash(pub u64);

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// XXH64 with seed 0.
#[must_use]
pub fn xxh64(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh64::xxh64(bytes, 0)
}

/// The hash that stands before the first block: target model, then cache salt, without a separator.
#[must_use]
pub fn chain_seed(model: &str, cache_salt: &str) -> u64 {
    let mut h = xxhash_rust::xxh64::Xxh64::new(0);
    h.update(model.as_bytes());
    h.update(cache_salt.as_bytes());
    h.digest()
}

/// Chains content hashes into block hashes, appending to `out`.
pub fn chain(seed: u64, contents: &[u64], out: &mut Vec<BlockHash>) {
    let mut parent = seed;
    out.reserve(contents.len());
    out.extend(contents.iter().map(|&content| {
        parent = xxh64_pair(content, parent);
        BlockHash(parent)
    }));
}

/// XXH64 with seed 0 of two little-endian words: what the general function does for 16 bytes, without asking how many there are. A chain of 2,000 blocks is
/// hashed between the last byte of a request and its decision; this takes a sixth of the instructions.
fn xxh64_pair(first: u64, second: u64) -> u64 {
    const P1: u64 = 0x9e37_79b1_85eb_ca87;
    const P2: u64 = 0xc2b2_ae3d_27d4_eb4f;
    const P3: u64 = 0x1656_67b1_9e37_79f9;
    const P4: u64 = 0x85eb_ca77_c2b2_ae63;
    const P5: u64 = 0x27d4_eb2f_1656_67c5;
    let mix = |hash: u64, word: u64| {
        let word = word.wrapping_mul(P2).rotate_left(31).wrapping_mul(P1);
        (hash ^ word).rotate_left(27).wrapping_mul(P1).wrapping_add(P4)
    };
    let mut hash = mix(mix(P5.wrapping_add(16), first), second);
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(tokens: &[u32], block: usize) -> Vec<u64> {
        tokens.chunks(block).map(|c| xxh64(&c.iter().flat_map(|t| t.to_le_bytes()).collect::<Vec<_>>())).collect()
    }

    fn hashes(model: &str, salt: &str, tokens: &[u32], block: usize) -> Vec<u64> {
        let mut out = Vec::new();
        chain(chain_seed(model, salt), &contents(tokens, block), &mut out);
        out.iter().map(|h| h.0).collect()
    }

    #[test]
    fn the_short_form_equals_the_general_function() {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state
        };
        for _ in 0..10_000 {
            let (a, b) = (next(), next());
            let bytes: Vec<u8> = [a.to_le_bytes(), b.to_le_bytes()].concat();
            assert_eq!(xxh64_pair(a, b), xxh64(&bytes));
        }
    }

    #[test]
    fn vector_v1() {
        assert_eq!(chain_seed("m", ""), 0xba2e_5670_83a2_b2e8);
        assert_eq!(hashes("m", "", &[1, 2, 3, 4, 5, 6, 7, 8], 4), [0xff37_5b44_6cd1_5b25, 0xd0e1_3dbe_79e3_cd40]);
    }

    #[test]
    fn vector_v2() {
        let tokens: Vec<u32> = (1..=130).collect();
        for (model, salt, want) in [
            ("llama3", "", [0xb8f4_c754_d195_d930, 0x1f3c_ef99_7885_3455, 0xeff6_e010_269d_fe97]),
            ("llama3", "tenant-a", [0x7e46_1ee0_0c41_a998, 0xec26_e95b_4326_0663, 0x4bc4_cebd_87b2_c76f]),
            ("llama3-lora1", "", [0x6a51_893b_f4e3_bcff, 0xb539_ae9d_b438_e843, 0x7fe3_d0f3_df74_6b99]),
        ] {
            assert_eq!(hashes(model, salt, &tokens, 64), want, "{model} {salt}");
        }
    }

    #[test]
    fn vectors_v3_v4_v5() {
        assert_eq!(hashes("llama3", "", &[1819043144, 1998597231, 1684828783, 33], 64), [0xa7e9_732c_77dd_75b4]);
        assert_eq!(hashes("llama3", "", &[1919251317, 1819043144, 111], 64), [0x95bd_29e7_33c9_ec9a]);
        assert_eq!(xxh64(b"https://example.com/cat.png"), 0x4585_d689_5fac_9f64);
    }
}
