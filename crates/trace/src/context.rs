//! Who a span is (W3C Trace Context, `traceparent`).

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

/// A trace, not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceId(pub NonZeroU128);

/// A span, not zero; unique in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SpanId(pub NonZeroU64);

impl TraceId {
    /// A random one.
    #[must_use]
    pub fn random() -> Self {
        Self(NonZeroU128::new(fastrand::u128(..)).unwrap_or(NonZeroU128::MAX))
    }
}

impl SpanId {
    /// A random one.
    #[must_use]
    pub fn random() -> Self {
        Self(NonZeroU64::new(fastrand::u64(..)).unwrap_or(NonZeroU64::MAX))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A span in its trace, and whether the trace is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// Whether whoever continues the trace should record it.
    pub sampled: bool,
}

/// Characters of a `traceparent` of version 00.
const LENGTH: usize = 55;

/// A `traceparent` header, written out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceParent([u8; LENGTH]);

impl TraceParent {
    /// The header's value.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits and hyphens")
    }
}

impl fmt::Debug for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl SpanContext {
    /// Reads a `traceparent`; `None` when it is not valid. Of a version that is not known yet, what version 00 has is read.
    #[must_use]
    pub fn parse(header: &str) -> Option<Self> {
        let bytes = header.as_bytes();
        let (known, rest) = bytes.split_at_checked(LENGTH)?;
        if known[2] != b'-' || known[35] != b'-' || known[52] != b'-' {
            return None;
        }
        let version = hex(&known[..2])?;
        let ends = if version == 0 { rest.is_empty() } else { rest.is_empty() || rest[0] == b'-' };
        if version == 0xff || !ends {
            return None;
        }
        Some(Self {
            trace: TraceId(NonZeroU128::new(hex(&known[3..35])?)?),
            span: SpanId(NonZeroU64::new(hex(&known[36..52])? as u64)?),
            sampled: hex(&known[53..])? & 1 == 1,
        })
    }

    /// The header that tells whoever comes next of this span.
    #[must_use]
    pub fn traceparent(&self) -> TraceParent {
        let mut out = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut out[3..35], self.trace.0.get());
        write_hex(&mut out[36..52], u128::from(self.span.0.get()));
        out[54] = if self.sampled { b'1' } else { b'0' };
        TraceParent(out)
    }
}

/// Lower-case hexadecimal digits, at most 32.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value: u128, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

fn write_hex(out: &mut [u8], mut value: u128) {
    for place in out.iter_mut().rev() {
        *place = b"0123456789abcdef"[(value & 0xf) as usize];
        value >>= 4;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_header_is_read_and_written_as_it_was() {
        let context = SpanContext::parse(GOOD).expect("valid");
        assert_eq!(context.trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span.to_string(), "b7ad6b7169203331");
        assert!(context.sampled);
        assert_eq!(context.traceparent().as_str(), GOOD);
        let off = SpanContext { sampled: false, ..context };
        assert!(off.traceparent().as_str().ends_with("-00"));
    }

    #[test]
    fn what_the_standard_calls_invalid_is_not_read() {
        for bad in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-011",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319g-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01x",
            "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333é-01",
        ] {
            assert_eq!(SpanContext::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn of_a_later_version_what_is_known_is_read() {
        for header in [
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
            "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-the-future-holds",
        ] {
            assert_eq!(SpanContext::parse(header), SpanContext::parse(GOOD), "{header}");
        }
    }

    proptest! {
        #[test]
        fn any_context_survives_the_way_through_its_header(trace in 1u128.., span in 1u64.., sampled: bool) {
            let trace = TraceId(NonZeroU128::new(trace).expect("not zero"));
            let context = SpanContext { trace, span: SpanId(NonZeroU64::new(span).expect("not zero")), sampled };
            prop_assert_eq!(SpanContext::parse(context.traceparent().as_str()), Some(context));
        }

        #[test]
        fn no_header_breaks_the_reader(header in ".{0,80}") {
            let _ = SpanContext::parse(&header);
        }
    }
}
