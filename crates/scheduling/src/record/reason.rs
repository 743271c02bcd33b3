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
    /// A number about it is not what is asked for.
    Unmet {
        /// What the number is called.
        signal: Arc<str>,
        /// The number.
        value: f64,
        /// How it must compare with the limit: `below`, `at least`, ...
        wanted: &'static str,
        /// What it is compared with.
        limit: f64,
    },
    /// A number about it is not known.
    Unknown(Arc<str>),
    /// It holds less of the prompt than others do.
    PrefixShare {
        /// Share of the prompt that it is believed to hold, 0 to 1.
        share: f64,
        /// Share that is asked for.
        wanted: f64,
    },
    /// The prompt is not of a length that it takes.
    ContextLength {
        /// Tokens of the prompt.
        tokens: u64,
        /// Fewest tokens that it takes.
        min: u64,
        /// Most tokens that it takes.
        max: u64,
    },
    /// It stands too far from the endpoint that it would work with.
    Farther {
        /// The nearest level that both share: `host`, `rack`, ...
        shared: Option<&'static str>,
        /// The level that must be shared.
        wanted: &'static str,
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
            Self::Unmet { signal, value, wanted, limit } => write!(f, "{signal} is {value}, must be {wanted} {limit}"),
            Self::Unknown(signal) => write!(f, "{signal} is not known"),
            Self::PrefixShare { share, wanted } => {
                write!(f, "holds {share:.2} of the prompt, others hold {wanted} or more")
            }
            Self::ContextLength { tokens, min, max } => {
                write!(f, "takes prompts of {min} to {max} tokens, this one has {tokens}")
            }
            Self::Farther { shared: Some(shared), wanted } => {
                write!(f, "shares only the {shared} with the other endpoint, not the {wanted}")
            }
            Self::Farther { shared: None, wanted } => write!(f, "does not share the {wanted} with the other endpoint"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_a_sentence() {
        let load = || Arc::<str>::from("load");
        for (reason, want) in [
            (
                Reason::Unmet { signal: load(), value: 5.5, wanted: "at most", limit: 5.0 },
                "load is 5.5, must be at most 5",
            ),
            (Reason::Unknown(load()), "load is not known"),
            (
                Reason::PrefixShare { share: 1.0 / 3.0, wanted: 0.8 },
                "holds 0.33 of the prompt, others hold 0.8 or more",
            ),
            (
                Reason::ContextLength { tokens: 300, min: 2049, max: 8192 },
                "takes prompts of 2049 to 8192 tokens, this one has 300",
            ),
            (
                Reason::Farther { shared: Some("zone"), wanted: "rack" },
                "shares only the zone with the other endpoint, not the rack",
            ),
            (Reason::Farther { shared: None, wanted: "host" }, "does not share the host with the other endpoint"),
        ] {
            assert_eq!(reason.to_string(), want);
        }
    }
}
