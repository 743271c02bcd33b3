//! Every plugin, one file each, and the table they are registered in.
//!
//! A plugin file holds the type with its doc comment (formula, range, edge cases, source), its [`row::Row`] (parameters, data it reads and
//! publishes, stability) and its tests. [`table::TABLE`] lists the rows; decoding, validation, `check` and the reference are made from it.
//! [`compile()`] turns a configuration document into a [`Compiled`] scheduler with everything around it. What plugins learn at run time lives in
//! [`learned::LearnedStates`], outside the compiled configuration, so that a reload keeps it.

pub mod admission;
mod attribute;
pub mod build;
mod by_slot;
mod compile;
pub mod data_layer;
pub mod deciders;
pub mod filters;
#[doc(hidden)]
pub mod fuzzing;
mod header_names;
pub mod hooks;
pub mod learned;
mod lru;
pub mod parsers;
pub mod pickers;
pub mod presets;
pub mod producers;
pub mod profile_handlers;
pub mod response;
pub mod row;
pub mod scorers;
mod session_affinity;
pub mod table;
#[cfg(test)]
mod testing;

pub use build::Blocks;
pub use compile::{
    CompileOptions, Compiled, CompiledSource, DefaultProfile, Judged, JudgedDocument, NamedPlugin, compile,
    compile_tree, judge,
};
pub use learned::{Learned, LearnedStates};
