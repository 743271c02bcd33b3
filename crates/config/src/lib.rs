//! The `EndpointPickerConfig` document: a tree that knows line and column of every node, its faults, and how they are shown.
//!
//! A document goes through four steps, each of which reports *all* it finds into one [`Faults`] instead of stopping at the first:
//!
//! 1. [`yaml::parse`] makes a tree of nodes with places. YAML and JSON are the same thing here.
//! 2. [`document::decode`] reads the tree strictly into a [`Document`]: unknown fields, wrong types, gates, quantities.
//! 3. [`document::check_references`] looks at names: what is referred to must be declared (or made by defaults).
//! 4. [`registry::check_types`] looks at plugin types through a [`Registry`] that the caller brings, and decodes each plugin's
//!    parameters against the rows ([`Param`]) its type declares.
//!
//! ```
//! use pointsman_config::{Faults, document, render};
//!
//! let text = "plugins:\n- type: queue-scorer\nschedulingProfiles:\n- name: default\n  plugins: [{pluginRef: queue}]\n";
//! let mut faults = Faults::new();
//! let document = document::decode(text.as_bytes(), &mut faults).document().expect("this text is a document");
//! document::check_references(&document, &["max-score-picker"], &mut faults);
//! assert_eq!(
//!     render("epp.yaml", text, &faults, false),
//!     "\
//! epp.yaml:5:25: profile `default` refers to plugin `queue`, which is not defined
//!     5 |   plugins: [{pluginRef: queue}]
//!       |                         ^^^^^ defined are: queue-scorer
//! 1 error
//! "
//! );
//! ```
//!
//! [`check`] runs all four. [`render`] shows the faults as a compiler would. [`endpoints`] reads the other file a person writes, the
//! list of endpoints; [`embedded`] finds configurations inside of other files. Nothing here does I/O or injects a default plugin; that needs the plugins themselves and lives above.

pub mod document;
pub mod embedded;
pub mod endpoints;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
pub mod params;
mod read;
pub mod registry;
pub mod units;
pub mod yaml;

pub use document::{Decoded, Document};
pub use fault::{Code, Fault, Faults, Severity, did_you_mean, nearest, nearest_few, render};
pub use params::{Param, ParamKind, ParamValue, Params};
pub use registry::{Checked, Kind, Registry, Stability, TypeInfo, check};
pub use yaml::{Node, Span, Value};
