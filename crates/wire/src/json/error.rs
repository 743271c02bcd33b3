//! Why bytes are not JSON.

use std::fmt;

/// Where and why bytes stopped being JSON. Displays in the words of Go's `encoding/json`, which users of the Go endpoint picker
/// know from their logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError {
    /// Offset of the byte that could not be.
    pub offset: usize,
    pub(crate) fault: Fault,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This byte cannot stand here.
    Byte(u8, &'static str),
    /// This byte breaks a literal: byte, word, expected byte.
    Literal(u8, &'static str, u8),
    /// Nested deeper than the limit.
    Depth(u8),
    /// A number longer than the limit.
    LongNumber,
    /// The bytes ended inside a value, or there were none.
    End,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.fault {
            Fault::Byte(byte, context) => write!(f, "invalid character '{}' {context}", show(byte)),
            Fault::Literal(byte, word, expected) => {
                write!(f, "invalid character '{}' in literal {word} (expecting '{}')", show(byte), char::from(expected))
            }
            Fault::Depth(byte) => write!(f, "invalid character '{}' exceeded max depth", char::from(byte)),
            Fault::LongNumber => write!(f, "number is longer than {} bytes", super::MAX_NUMBER),
            Fault::End => f.write_str("unexpected end of JSON input"),
        }
    }
}

impl std::error::Error for JsonError {}

fn show(byte: u8) -> String {
    let c = char::from(byte);
    if c == '"' || !c.is_control() && c != '\'' && c != '\\' { c.to_string() } else { c.escape_default().to_string() }
}
