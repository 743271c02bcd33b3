//! Spans as plain data.

use crate::{SpanContext, SpanId};
use std::borrow::Cow;
use std::sync::Arc;

/// On which side of a call a span is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It answers a request from outside.
    Server,
    /// It is a step of our own.
    Internal,
}

/// How a span ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Nothing to say, which means well.
    #[default]
    Unset,
    /// With an error.
    Error(Cow<'static, str>),
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// Text.
    Text(Arc<str>),
    /// Several texts.
    Texts(Vec<Arc<str>>),
    /// Several numbers.
    Floats(Vec<f64>),
}

/// What was done, from when to when, and as a part of what.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// What.
    pub name: Cow<'static, str>,
    /// Which side.
    pub kind: Kind,
    /// Its own identity.
    pub context: SpanContext,
    /// The span that it is a part of.
    pub parent: Option<SpanId>,
    /// Whether the parent is another process's.
    pub parent_is_remote: bool,
    /// When it began, nanoseconds since the Unix epoch.
    pub start_unix_ns: u64,
    /// When it ended, nanoseconds since the Unix epoch.
    pub end_unix_ns: u64,
    /// What is known of it. Never a part of a prompt or of an answer.
    pub attributes: Vec<(&'static str, Value)>,
    /// How it ended.
    pub status: Status,
    /// An error that happened while it lasted, exported as an event `exception` at its end.
    pub exception: Option<Cow<'static, str>>,
}

impl From<usize> for Value {
    fn from(n: usize) -> Self {
        Self::Int(n as i64)
    }
}

impl From<f64> for Value {
    fn from(v: f64) -> Self {
        Self::Float(v)
    }
}

impl From<&Arc<str>> for Value {
    fn from(text: &Arc<str>) -> Self {
        Self::Text(Arc::clone(text))
    }
}
