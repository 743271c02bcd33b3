//! Identity of a decision: sortable by time, short enough to say aloud.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const DIGITS: usize = 13;

/// Milliseconds since the Unix epoch (44 bits) and a counter (20 bits), shown as 13 digits of Crockford's base 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionId(pub u64);

impl fmt::Display for DecisionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; DIGITS];
        for (i, c) in text.iter_mut().enumerate() {
            *c = ALPHABET[(self.0 >> (5 * (DIGITS - 1 - i)) & 31) as usize];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl FromStr for DecisionId {
    type Err = ();

    fn from_str(s: &str) -> Result<Self, ()> {
        if s.len() != DIGITS {
            return Err(());
        }
        let mut value: u64 = 0;
        for c in s.bytes() {
            let c = match c.to_ascii_uppercase() {
                b'O' => b'0',
                b'I' | b'L' => b'1',
                c => c,
            };
            let digit = ALPHABET.iter().position(|&a| a == c).ok_or(())? as u64;
            value = value.checked_mul(32).ok_or(())?.checked_add(digit).ok_or(())?;
        }
        Ok(Self(value))
    }
}

/// Gives out identities that only grow.
#[derive(Debug, Default)]
pub struct DecisionIds(AtomicU64);

impl DecisionIds {
    /// The next identity at that wall-clock time.
    pub fn next(&self, unix_millis: u64) -> DecisionId {
        let floor = unix_millis << 20;
        let mut last = self.0.load(Ordering::Relaxed);
        loop {
            let next = floor.max(last + 1);
            match self.0.compare_exchange_weak(last, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return DecisionId(next),
                Err(now) => last = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_grow_and_read_back() {
        let ids = DecisionIds::default();
        let a = ids.next(1_764_449_000_000);
        let b = ids.next(1_764_449_000_000);
        let c = ids.next(1_764_448_000_000);
        assert!(a < b && b < c);
        for id in [a, b, c, DecisionId(0), DecisionId(u64::MAX)] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        assert!("".parse::<DecisionId>().is_err());
        assert!("ZZZZZZZZZZZZZ".parse::<DecisionId>().is_err(), "larger than 64 bits");
    }
}
