//! `EndpointPickerConfig`, decoded strictly but with every name still only a name.
//!
//! Deprecated forms are already moved to where they belong (with a warning); defaults that need plugins are *not* injected here.

mod decode;
mod flow;
mod gates;
mod references;

use std::time::Duration;

pub use decode::{decode, decode_tree};
pub use flow::{Band, FlowControl};
pub use gates::FeatureGates;
pub use references::check_references;

use crate::yaml::{Node, Span};

/// API groups that are accepted; the second one is deprecated.
pub const API_VERSIONS: [&str; 2] = ["llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1"];
/// The only kind.
pub const KIND: &str = "EndpointPickerConfig";

/// What became of the bytes of a document.
#[derive(Clone, Debug)]
pub enum Decoded {
    /// There is no document: no bytes, or nothing but blanks and comments. The built-in default applies.
    Absent,
    /// Not even a tree, or not a mapping. The faults say why.
    Unreadable,
    /// Decoded as far as it could be; usable only when no *errors* were reported.
    Document(Box<Document>),
}

impl Decoded {
    /// The document, if there is one.
    #[must_use]
    pub fn document(self) -> Option<Document> {
        match self {
            Self::Document(d) => Some(*d),
            _ => None,
        }
    }
}

/// The whole document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Document {
    /// `featureGates`, resolved over their defaults.
    pub feature_gates: FeatureGates,
    /// `plugins`, in the order declared.
    pub plugins: Vec<PluginDecl>,
    /// `schedulingProfiles`, in the order declared.
    pub profiles: Vec<ProfileDecl>,
    /// `dataLayer`.
    pub data_layer: DataLayer,
    /// `flowControl`.
    pub flow_control: FlowControl,
    /// `requestHandler`.
    pub request_handler: RequestHandler,
}

/// A reference to a plugin instance by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Instance name.
    pub name: String,
    /// Where the name stands.
    pub span: Span,
    /// Path of the field that holds it.
    pub path: String,
}

/// One entry of `plugins`.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginDecl {
    /// Instance name; the type where no name is given.
    pub name: String,
    /// Registered type; empty when missing (which is an error).
    pub type_name: String,
    /// `parameters`; `None` when absent or null.
    pub parameters: Option<Node>,
    /// Position in `plugins`.
    pub index: usize,
    /// The entry.
    pub span: Span,
    /// The name, or the type where no name is given.
    pub name_span: Span,
    /// The type.
    pub type_span: Span,
}

impl PluginDecl {
    /// `plugins[3]`
    #[must_use]
    pub fn path(&self) -> String {
        format!("plugins[{}]", self.index)
    }
}

/// One entry of `schedulingProfiles`.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileDecl {
    /// Unique name.
    pub name: String,
    /// Where the name stands.
    pub name_span: Span,
    /// The entry.
    pub span: Span,
    /// What runs in it, in order.
    pub plugins: Vec<PluginRef>,
}

/// One entry of `schedulingProfiles[].plugins`.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginRef {
    /// The instance.
    pub reference: Reference,
    /// Weight of a scorer; finite, any sign. `None` means 1.0.
    pub weight: Option<f64>,
    /// Where the weight stands, when given.
    pub weight_span: Option<Span>,
}

/// `dataLayer`
#[derive(Clone, Debug, PartialEq)]
pub struct DataLayer {
    /// Whether the metrics source and its extractor are added when missing; true unless switched off.
    pub inject_defaults: bool,
    /// Where that is said, when it is.
    pub inject_defaults_span: Option<Span>,
    /// `sources`.
    pub sources: Vec<SourceDecl>,
    /// `discovery.pluginRef`: where endpoints come from when not from Kubernetes.
    pub discovery: Option<Reference>,
    /// `peerDiscovery.pluginRef`.
    pub peer_discovery: Option<Reference>,
    /// `crossReplicaSyncerPluginRef`.
    pub cross_replica_syncer: Option<Reference>,
    /// `crossReplicaSyncInterval`; `None` means 200 ms.
    pub cross_replica_sync_interval: Option<Duration>,
}

impl Default for DataLayer {
    fn default() -> Self {
        Self {
            inject_defaults: true,
            inject_defaults_span: None,
            sources: Vec::new(),
            discovery: None,
            peer_discovery: None,
            cross_replica_syncer: None,
            cross_replica_sync_interval: None,
        }
    }
}

/// One entry of `dataLayer.sources`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceDecl {
    /// The data source.
    pub source: Reference,
    /// What reads its pages, in order.
    pub extractors: Vec<Reference>,
}

/// `requestHandler`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHandler {
    /// `parsers`, in the order they are asked; empty means the default list.
    pub parsers: Vec<Reference>,
}

#[cfg(test)]
mod tests;
