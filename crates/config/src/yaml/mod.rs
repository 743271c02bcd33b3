//! A YAML tree in which every node knows where it was written.
//!
//! Scalars are read as Kubernetes' YAML-to-JSON conversion reads them where it matters: `null`, `true`/`false`, integers in any Go
//! base, floats. The YAML 1.1 booleans (`yes`, `no`, `on`, `off`, `y`, `n`) stay text with [`Value::String::plain`] set: a field that
//! wants a boolean takes them (documents written for the Go picker keep their meaning), and a field that wants a string refuses them
//! with a hint to quote, as the Go picker does, because there they arrive as booleans.

mod build;
mod remedy;
mod resolve;

pub(crate) use build::lines;
pub use build::{MAX_BYTES, MAX_COPIED_NODES, MAX_DEPTH, parse, text_of};
pub(crate) use resolve::{plain, yaml11_bool};

/// Where something was written: lines and columns count from 1, columns in characters; the end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First line.
    pub line: u32,
    /// First column.
    pub column: u32,
    /// Line of the end.
    pub end_line: u32,
    /// Column just after the last character.
    pub end_column: u32,
}

impl Span {
    /// The very beginning of a text.
    pub const START: Span = Span { line: 1, column: 1, end_line: 1, end_column: 1 };
}

impl Default for Span {
    fn default() -> Self {
        Self::START
    }
}

/// A value and its place. A node that came through an alias keeps the place where its text stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it is.
    pub span: Span,
}

/// What a node holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `null`, `~` or nothing at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number that fits 64 bits with a sign.
    Int(i64),
    /// Any other number, `.inf` and `.nan` included.
    Float(f64),
    /// Text.
    String {
        /// The text, escapes resolved.
        text: String,
        /// Written without quotes.
        plain: bool,
    },
    /// A list.
    Sequence(Vec<Node>),
    /// Keys and values in the order written; keys are unique.
    Mapping(Vec<(Key, Node)>),
}

/// A mapping's key: always text, numbers and booleans by their spelling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// The text.
    pub text: String,
    /// Where it is.
    pub span: Span,
}

impl Node {
    /// What the node is, with an article, for messages.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "an integer",
            Value::Float(_) => "a number",
            Value::String { text, plain } if *plain && yaml11_bool(text).is_some() => "a YAML 1.1 boolean",
            Value::String { .. } => "a string",
            Value::Sequence(_) => "a list",
            Value::Mapping(_) => "a mapping",
        }
    }

    /// True for `null`, which everywhere means the same as leaving the field out.
    #[must_use]
    pub fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// Text of a string node.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String { text, .. } => Some(text),
            _ => None,
        }
    }

    /// The items of a list.
    #[must_use]
    pub fn items(&self) -> Option<&[Node]> {
        match &self.value {
            Value::Sequence(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of a mapping.
    #[must_use]
    pub fn entries(&self) -> Option<&[(Key, Node)]> {
        match &self.value {
            Value::Mapping(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value under `key`, when this is a mapping that has it.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entries()?.iter().find(|(k, _)| k.text == key).map(|(_, v)| v)
    }

    /// The same as JSON, places forgotten. Unquoted YAML 1.1 booleans become booleans; numbers JSON cannot say become `null`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(b) => Json::Bool(*b),
            Value::Int(i) => Json::from(*i),
            Value::Float(f) => Json::from(*f),
            Value::String { text, plain } => match yaml11_bool(text) {
                Some(b) if *plain => Json::Bool(b),
                _ => Json::String(text.clone()),
            },
            Value::Sequence(items) => items.iter().map(Node::to_json).collect(),
            Value::Mapping(entries) => entries.iter().map(|(k, v)| (k.text.clone(), v.to_json())).collect(),
        }
    }
}

#[cfg(test)]
mod tests;
