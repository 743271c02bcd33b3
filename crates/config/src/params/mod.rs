//! What a plugin type's registration row says of its parameters, and the values decoded by it.
//!
//! The rows are the only place where a parameter is described: decoding and checking read them here, and the JSON Schema and the
//! reference pages are made from them elsewhere.

mod decode;

use std::collections::BTreeMap;
use std::time::Duration;

pub use decode::{decode, faults_of_rows};

use crate::yaml::{Node, Span};

/// One parameter of a plugin type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Param {
    /// The key, as the documents spell it.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamKind,
    /// The value when it is left out, as JSON text (`"30s"` with its quotes). `None`: absent unless given. `Some("{}")` on an object
    /// makes its own defaults appear.
    pub default: Option<&'static str>,
    /// Leaving it out is an error.
    pub required: bool,
    /// One sentence: meaning and unit.
    pub doc: &'static str,
    /// Still accepted with a warning; the text says what to use instead, or that it is ignored.
    pub deprecated: Option<&'static str>,
    /// Its value is shown to nobody.
    pub secret: bool,
}

impl Param {
    /// A parameter that may be left out and has no default.
    #[must_use]
    pub const fn new(name: &'static str, kind: ParamKind, doc: &'static str) -> Self {
        Self { name, kind, default: None, required: false, doc, deprecated: None, secret: false }
    }

    /// With a default, as JSON text.
    #[must_use]
    pub const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }

    /// Must be given.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    /// Its value is shown to nobody.
    #[must_use]
    pub const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// Accepted with a warning that ends in `instead`, such as "use `blockSizeTokens`" or "it is ignored".
    #[must_use]
    pub const fn deprecated(mut self, instead: &'static str) -> Self {
        self.deprecated = Some(instead);
        self
    }
}

/// What a parameter takes. Bounds are inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ParamKind {
    /// `true` or `false`.
    Bool,
    /// A whole number.
    Integer {
        /// Least.
        min: Option<i64>,
        /// Most.
        max: Option<i64>,
    },
    /// Any finite number.
    Number {
        /// Least.
        min: Option<f64>,
        /// Most.
        max: Option<f64>,
    },
    /// Text.
    String,
    /// One of these words.
    Enum(&'static [&'static str]),
    /// Go duration text, zero or more: `1m30s`, `250ms`.
    Duration,
    /// Kubernetes quantity, zero or more: `1Gi`, `500M`, `1k`, `1000`.
    Quantity,
    /// A list of one kind.
    List(&'static ParamKind),
    /// A mapping with these keys and no others.
    Object(&'static [Param]),
    /// A mapping of any keys to text, such as labels.
    AnyMap,
    /// Anything; kept as the tree it is.
    Any,
}

impl ParamKind {
    /// A whole number without bounds.
    pub const INTEGER: ParamKind = ParamKind::Integer { min: None, max: None };
    /// A whole number, zero or more.
    pub const COUNT: ParamKind = ParamKind::Integer { min: Some(0), max: None };
    /// A whole number, one or more.
    pub const POSITIVE: ParamKind = ParamKind::Integer { min: Some(1), max: None };
    /// A TCP port, 1 to 65535.
    pub const PORT: ParamKind = ParamKind::Integer { min: Some(1), max: Some(65535) };
    /// A number without bounds.
    pub const NUMBER: ParamKind = ParamKind::Number { min: None, max: None };
    /// A number, zero or more.
    pub const NON_NEGATIVE: ParamKind = ParamKind::Number { min: Some(0.0), max: None };
    /// A number from 0 to 1.
    pub const FRACTION: ParamKind = ParamKind::Number { min: Some(0.0), max: Some(1.0) };
}

/// A decoded value.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamValue {
    /// Of [`ParamKind::Bool`].
    Bool(bool),
    /// Of [`ParamKind::Integer`].
    Integer(i64),
    /// Of [`ParamKind::Number`]; finite.
    Number(f64),
    /// Of [`ParamKind::String`].
    String(String),
    /// Of [`ParamKind::Enum`].
    Enum(&'static str),
    /// Of [`ParamKind::Duration`].
    Duration(Duration),
    /// Of [`ParamKind::Quantity`], in the base unit.
    Quantity(u64),
    /// Of [`ParamKind::List`].
    List(Vec<ParamValue>),
    /// Of [`ParamKind::Object`].
    Object(Params),
    /// Of [`ParamKind::AnyMap`].
    Map(BTreeMap<String, String>),
    /// Of [`ParamKind::Any`].
    Any(Node),
}

impl ParamValue {
    /// The number in it, whole ones included.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(x) => Some(*x),
            Self::Integer(i) => Some(*i as f64),
            Self::Quantity(q) => Some(*q as f64),
            _ => None,
        }
    }

    /// The whole number in it.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Integer(i) => Some(*i),
            Self::Quantity(q) => i64::try_from(*q).ok(),
            _ => None,
        }
    }

    /// The text or word in it.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(s) => Some(s),
            Self::Enum(s) => Some(s),
            _ => None,
        }
    }

    /// The object in it.
    #[must_use]
    pub fn as_object(&self) -> Option<&Params> {
        match self {
            Self::Object(p) => Some(p),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
struct Slot {
    name: &'static str,
    value: ParamValue,
    span: Span,
    given: bool,
}

/// Decoded parameters with their defaults filled in.
///
/// The getters never fail: a parameter that is absent, has no default and is asked for reads as its type's zero (`false`, `0`, `""`,
/// no items). [`Params::get`] tells absence apart, [`Params::given`] tells a default from what a person wrote. Asking for a name that
/// the rows do not declare is a programming error, caught in debug builds.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    rows: &'static [Param],
    slots: Vec<Slot>,
    span: Span,
    path: String,
    sound: bool,
}

impl Params {
    /// What the rows give when nothing is written.
    #[must_use]
    pub fn defaults(rows: &'static [Param]) -> Self {
        decode(None, rows, Span::START, "", &mut crate::fault::Faults::new())
    }

    /// The value, given or default.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ParamValue> {
        self.slot(name).map(|s| &s.value)
    }

    /// True when a person wrote it.
    #[must_use]
    pub fn given(&self, name: &str) -> bool {
        self.slot(name).is_some_and(|s| s.given)
    }

    /// False when something in it is an error of its own: what it holds instead was not written, and nothing follows from it.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.sound
    }

    /// Says that something in it is an error.
    pub(crate) fn doubt(&mut self) {
        self.sound = false;
    }

    /// Where the value stands; for a default, where the parameters as a whole stand. For faults found later.
    #[must_use]
    pub fn span(&self, name: &str) -> Span {
        self.slot(name).map_or(self.span, |s| s.span)
    }

    /// Where the parameters as a whole stand (or the plugin, when it has none).
    #[must_use]
    pub fn whole_span(&self) -> Span {
        self.span
    }

    /// Path of one parameter, such as `plugins[2].parameters.threshold`.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.path)
    }

    /// A boolean.
    #[must_use]
    pub fn bool(&self, name: &str) -> bool {
        matches!(self.get(name), Some(ParamValue::Bool(true)))
    }

    /// A whole number.
    #[must_use]
    pub fn i64(&self, name: &str) -> i64 {
        self.get(name).and_then(ParamValue::as_i64).unwrap_or(0)
    }

    /// A whole number or quantity; negative ones read as 0.
    #[must_use]
    pub fn u64(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(ParamValue::Quantity(q)) => *q,
            Some(ParamValue::Integer(i)) => u64::try_from(*i).unwrap_or(0),
            _ => 0,
        }
    }

    /// The same as an index; saturates.
    #[must_use]
    pub fn usize(&self, name: &str) -> usize {
        usize::try_from(self.u64(name)).unwrap_or(usize::MAX)
    }

    /// A number.
    #[must_use]
    pub fn f64(&self, name: &str) -> f64 {
        self.get(name).and_then(ParamValue::as_f64).unwrap_or(0.0)
    }

    /// Text, or the word of an enumeration.
    #[must_use]
    pub fn str(&self, name: &str) -> &str {
        self.get(name).and_then(ParamValue::as_str).unwrap_or("")
    }

    /// A duration.
    #[must_use]
    pub fn duration(&self, name: &str) -> Duration {
        match self.get(name) {
            Some(ParamValue::Duration(d)) => *d,
            _ => Duration::ZERO,
        }
    }

    /// Items of a list.
    #[must_use]
    pub fn list(&self, name: &str) -> &[ParamValue] {
        match self.get(name) {
            Some(ParamValue::List(items)) => items,
            _ => &[],
        }
    }

    /// The text items of a list.
    pub fn strings(&self, name: &str) -> impl Iterator<Item = &str> {
        self.list(name).iter().filter_map(ParamValue::as_str)
    }

    /// The object items of a list.
    pub fn objects(&self, name: &str) -> impl Iterator<Item = &Params> {
        self.list(name).iter().filter_map(ParamValue::as_object)
    }

    /// An object; `None` when absent without a default.
    #[must_use]
    pub fn object(&self, name: &str) -> Option<&Params> {
        self.get(name).and_then(ParamValue::as_object)
    }

    /// A map of text to text.
    #[must_use]
    pub fn map(&self, name: &str) -> Option<&BTreeMap<String, String>> {
        match self.get(name) {
            Some(ParamValue::Map(m)) => Some(m),
            _ => None,
        }
    }

    /// The tree of a parameter of any shape.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        match self.get(name) {
            Some(ParamValue::Any(n)) => Some(n),
            _ => None,
        }
    }

    /// Whether the value is to be shown to nobody.
    #[must_use]
    pub fn is_secret(&self, name: &str) -> bool {
        self.rows.iter().any(|r| r.name == name && r.secret)
    }

    /// Whether a parameter is one of those that nobody should write any more.
    #[must_use]
    pub fn is_deprecated(&self, name: &str) -> bool {
        self.rows.iter().any(|r| r.name == name && r.deprecated.is_some())
    }

    /// Every value with its name and whether a person wrote it, in the order of the rows: for the effective configuration.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &ParamValue, bool)> {
        self.slots.iter().map(|s| (s.name, &s.value, s.given))
    }

    fn slot(&self, name: &str) -> Option<&Slot> {
        debug_assert!(self.rows.iter().any(|r| r.name == name), "parameter {name} is not declared");
        self.slots.iter().find(|s| s.name == name)
    }
}

#[cfg(test)]
mod tests;
