//! Why a candidate is out.

use std::fmt;
use std::sync::Arc;

/// A reason, kept as values and put into words only when someone reads it.
#[derive(Clone, Debug, PartialEq)]
pub enum Reason {
    /// The endpoint is not ready.
    NotReady {
        /// Why.
        why: Arc<str>,
        /// Since when, milliseconds since the Unix epoch.
        since_unix_ms: u64,
    },
    /// The proxy does not allow it for this request.
    NotInSubset,
    /// The engine does not list the requested model.
    ModelNotServed,
    /// A label is missing.
    LabelMissing(Arc<str>),
    /// A label has a value that does not fit.
    LabelValue(Arc<str>, Arc<str>),
    /// A signal is above its limit.
    Above {
        /// Name of the signal.
        signal: &'static str,
        /// Its value.
        value: f64,
        /// The highest value that passes.
        limit: f64,
    },
    /// Any other reason.
    Text(&'static str),
}

impl Reason {
    /// What the JSON form names as dropping a candidate that was out before any filter.
    #[must_use]
    pub fn before_filters(&self) -> &'static str {
        match self {
            Self::ModelNotServed => "model-not-listed",
            Self::NotInSubset => "not-in-subset",
            _ => "not-ready",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotReady { why, .. } => f.write_str(why),
            Self::NotInSubset => f.write_str("not in the subset that the proxy allows"),
            Self::ModelNotServed => f.write_str("the engine does not list the requested model"),
            Self::LabelMissing(key) => write!(f, "label {key} is missing"),
            Self::LabelValue(key, value) => write!(f, "label {key} is {value}"),
            Self::Above { signal, value, limit } => write!(f, "{signal} is {value}, limit {limit}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}
