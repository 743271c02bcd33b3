//! How a call ends.

use std::borrow::Cow;

use http::{HeaderMap, HeaderValue};

/// gRPC status codes that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Code {
    /// Success.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// Whatever has no better name.
    Unknown = 2,
    /// The request makes no sense.
    InvalidArgument = 3,
    /// The caller's time was up.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// A limit is exceeded.
    ResourceExhausted = 8,
    /// There is no such method, or it is not supported.
    Unimplemented = 12,
    /// A fault of our own.
    Internal = 13,
    /// The process is stopping.
    Unavailable = 14,
}

impl Code {
    /// The name, as metrics spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Cancelled => "Canceled",
            Self::Unknown => "Unknown",
            Self::InvalidArgument => "InvalidArgument",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::NotFound => "NotFound",
            Self::ResourceExhausted => "ResourceExhausted",
            Self::Unimplemented => "Unimplemented",
            Self::Internal => "Internal",
            Self::Unavailable => "Unavailable",
        }
    }
}

/// A code and what to say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: Code,
    /// For a person; empty for success.
    pub message: Cow<'static, str>,
}

impl Status {
    /// Success.
    pub const OK: Self = Self { code: Code::Ok, message: Cow::Borrowed("") };

    /// A status with its message.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into() }
    }

    /// As trailers.
    #[must_use]
    pub fn trailers(&self) -> HeaderMap {
        let mut map = HeaderMap::with_capacity(2);
        map.insert("grpc-status", HeaderValue::from(self.code as u16));
        if !self.message.is_empty() {
            let encoded = percent_encoded(&self.message);
            map.insert("grpc-message", HeaderValue::from_str(&encoded).expect("only printable ASCII is left"));
        }
        map
    }
}

/// The encoding that gRPC asks for: printable ASCII but `%` as it is, every other byte as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.extend([byte >> 4, byte & 15].map(|d| char::from(b"0123456789ABCDEF"[usize::from(d)])));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_a_status_without_a_message() {
        let trailers = Status::OK.trailers();
        assert_eq!(trailers.len(), 1);
        assert_eq!(trailers["grpc-status"], "0");
    }

    #[test]
    fn messages_are_percent_encoded() {
        let trailers = Status::new(Code::ResourceExhausted, "50 % of\nü").trailers();
        assert_eq!(trailers["grpc-status"], "8");
        assert_eq!(trailers["grpc-message"], "50 %25 of%0A%C3%BC");
    }
}
