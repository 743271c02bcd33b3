//! What the registration table says of a plugin type: everything there is to say about it.

use crate::build::{Build, Instance};
pub use pointsman_config::{Kind, Stability};
use pointsman_config::{Param, ParamKind};
use pointsman_scheduling::DataKind;

/// The parameter that names whoever says which prefixes match.
pub(crate) const PREFIX_PRODUCER: Param =
    Param::new("prefixMatchInfoProducerName", ParamKind::String, "Producer of the matches.")
        .default("\"approx-prefix-cache-producer\"");

/// One plugin type. Decoding, validation, `check` and the reference documentation are made from these rows.
#[derive(Clone, Copy)]
pub struct Row {
    /// Configuration type.
    pub type_name: &'static str,
    /// What it can be used as.
    pub kinds: &'static [Kind],
    /// How settled it is.
    pub stability: Stability,
    /// One sentence about it.
    pub doc: &'static str,
    /// How its figure is computed, where it has one.
    pub formula: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Data it reads.
    pub needs: &'static [Need],
    /// Data it publishes under its instance name.
    pub makes: &'static [DataKind],
    /// Which of the engines' gauges it cannot do without.
    pub signals: &'static [Signal],
    /// Whether it is created when a consumer needs what it makes and nobody makes it.
    pub default_producer: bool,
    /// Why it cannot be created like that, for a default producer that needs parameters.
    pub must_be_declared: Option<&'static str>,
    /// What to use instead, for a deprecated type.
    pub deprecated: Option<&'static str>,
    /// Parameters that show how it is used, in YAML; empty where the defaults do.
    pub example: &'static str,
    /// Further entries of `plugins` that the example needs.
    pub example_needs: &'static [&'static str],
    /// Entries of `schedulingProfiles` that the example needs.
    pub example_profiles: &'static [&'static str],
    /// Makes an instance; `None` for a type that is known, not yet available.
    pub build: Option<fn(&mut Build<'_>) -> Instance>,
}

impl Row {
    /// A row without parameters or data that cannot be built yet.
    #[must_use]
    pub const fn new(type_name: &'static str, kinds: &'static [Kind], stability: Stability, doc: &'static str) -> Self {
        Self {
            type_name,
            kinds,
            stability,
            doc,
            formula: "",
            params: &[],
            needs: &[],
            makes: &[],
            signals: &[],
            default_producer: false,
            must_be_declared: None,
            deprecated: None,
            example: "",
            example_needs: &[],
            example_profiles: &[],
            build: None,
        }
    }

    /// The example: an entry of `plugins` for the type, and those that it needs beside it.
    #[must_use]
    pub fn example_entries(&self) -> String {
        let mut out = format!("- type: {}\n", self.type_name);
        if !self.example.is_empty() {
            out.push_str(&format!("  parameters: {}\n", self.example));
        }
        out.extend(self.example_needs.iter().map(|need| format!("- {need}\n")));
        out
    }
}

/// One of the gauges that engines show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Requests that wait.
    Waiting,
    /// Requests that run.
    Running,
    /// Share of KV-cache blocks in use.
    KvUsage,
    /// Which adapters run and wait.
    Lora,
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Waiting => "waiting requests",
            Self::Running => "running requests",
            Self::KvUsage => "KV cache usage",
            Self::Lora => "LoRA adapters",
        })
    }
}

/// Data that a plugin reads.
#[derive(Clone, Copy, Debug)]
pub struct Need {
    /// What kind.
    pub kind: DataKind,
    /// The parameter that names the producer, where there is one.
    pub producer_param: Option<&'static str>,
    /// Whether it is an error that nobody makes it.
    pub required: bool,
}

impl Need {
    /// Required, from the default producer.
    #[must_use]
    pub const fn required(kind: DataKind) -> Self {
        Self { kind, producer_param: None, required: true }
    }

    /// Required, from the producer that a parameter names.
    #[must_use]
    pub const fn named(kind: DataKind, param: &'static str) -> Self {
        Self { kind, producer_param: Some(param), required: true }
    }

    /// Read when somebody makes it, from the producer that a parameter names.
    #[must_use]
    pub const fn optional(kind: DataKind, param: &'static str) -> Self {
        Self { kind, producer_param: Some(param), required: false }
    }
}
