//! From bytes to a [`Document`].

use std::collections::HashMap;

use super::{API_VERSIONS, DataLayer, Decoded, Document, KIND, PluginDecl, PluginRef, ProfileDecl, Reference};
use super::{RequestHandler, SourceDecl, flow, gates};
use crate::embedded::reads_like_one;
use crate::fault::{Code, Faults, listed, quote};
use crate::read::{self, Fields};
use crate::yaml::{self, MAX_BYTES, Node, Span};

/// Beyond it, a few weights have no finite sum.
const MAX_WEIGHT: f64 = 1e100;

const FIELDS: &[&str] = &[
    "apiVersion",
    "kind",
    "featureGates",
    "plugins",
    "schedulingProfiles",
    "dataLayer",
    "flowControl",
    "requestHandler",
    "saturationDetector",
    "parser",
];
const DATA_LAYER_FIELDS: &[&str] = &[
    "injectDefaults",
    "sources",
    "discovery",
    "peerDiscovery",
    "crossReplicaSyncerPluginRef",
    "crossReplicaSyncInterval",
];

/// Decodes one document strictly, reporting everything that can be seen without knowing the plugin types or the names defaults make.
pub fn decode(bytes: &[u8], faults: &mut Faults) -> Decoded {
    let Some(text) = yaml::text_of(bytes, MAX_BYTES, faults) else { return Decoded::Unreadable };
    match yaml::parse(text, faults) {
        Some(root) => decode_tree(&root, faults),
        None => Decoded::Unreadable,
    }
}

/// Decodes what was parsed already, such as a part of another document.
pub fn decode_tree(root: &Node, faults: &mut Faults) -> Decoded {
    if root.is_null() {
        return Decoded::Absent;
    }
    // Of a document of another kind only that is worth telling.
    let told = |key: &str| root.get(key).is_some_and(|n| !n.is_null());
    let foreign = root.get("kind").filter(|k| k.as_str().is_some_and(|k| k != KIND));
    if let Some(kind) = foreign.filter(|_| !FIELDS[2..].iter().any(|f| told(f))) {
        wrong_kind(kind.as_str().unwrap_or_default(), kind.span, root, faults);
        return Decoded::Unreadable;
    }
    let Some(f) = Fields::of(root, "", FIELDS, faults) else { return Decoded::Unreadable };
    identity(&f, root, faults);

    let feature_gates = gates::resolve(&f.list("featureGates", faults), faults);
    let mut document = Document {
        feature_gates,
        plugins: plugins(&f, faults),
        profiles: profiles(&f, faults),
        data_layer: f.node("dataLayer").map_or_else(DataLayer::default, |(n, p)| data_layer(n, &p, faults)),
        flow_control: f
            .node("flowControl")
            .map_or_else(Default::default, |(n, _)| flow::decode(n, feature_gates.flow_control, faults)),
        request_handler: f
            .node("requestHandler")
            .map_or_else(Default::default, |(n, p)| request_handler(n, &p, faults)),
    };
    deprecated_forms(&f, &mut document, faults);
    Decoded::Document(Box::new(document))
}

/// `apiVersion` and `kind`: either may be left out.
fn identity(f: &Fields<'_>, root: &Node, faults: &mut Faults) {
    if let Some((version, span)) = f.string("apiVersion", faults) {
        if version == API_VERSIONS[1] {
            faults
                .warning(Code::DeprecatedVersion, span, "apiVersion", format!("apiVersion `{version}` is deprecated"))
                .label(format!("write `{}`", API_VERSIONS[0]));
        } else if version != API_VERSIONS[0] {
            faults
                .error(
                    Code::UnknownVersion,
                    span,
                    "apiVersion",
                    format!("no kind `{KIND}` is known for apiVersion {}", quote(version)),
                )
                .label(format!("write `{}`", API_VERSIONS[0]))
                .help(format!("accepted are: {} (deprecated: {})", API_VERSIONS[0], API_VERSIONS[1]));
        }
    }
    if let Some((kind, span)) = f.string("kind", faults)
        && kind != KIND
    {
        wrong_kind(kind, span, root, faults);
    }
}

fn wrong_kind(kind: &str, span: Span, root: &Node, faults: &mut Faults) {
    let fault =
        faults.error(Code::WrongKind, span, "kind", format!("kind {} is not a picker configuration", quote(kind)));
    match kind {
        "ConfigMap" => {}
        "Secret" => {
            fault.label("its `data` is base64, which is not looked into: give the document itself");
            return;
        }
        _ => {
            fault.label(format!("write `{KIND}`"));
            return;
        }
    }
    // `check` looks inside, a start does not.
    let values = root.get("data").and_then(Node::entries).unwrap_or_default();
    let holds_one = values.iter().any(|(_, v)| v.as_str().is_some_and(reads_like_one));
    let keys = listed(values.iter().map(|(key, _)| key.text.as_str()));
    fault.label(match (holds_one, keys.is_empty()) {
        (true, _) => format!("a start takes the `{KIND}` in its `data`, by itself"),
        (false, true) => "it has no `data`".to_owned(),
        (false, false) => format!("no key of its `data` holds an `{KIND}`: it has {keys}"),
    });
}

fn plugins(f: &Fields<'_>, faults: &mut Faults) -> Vec<PluginDecl> {
    let mut out: Vec<PluginDecl> = Vec::new();
    let mut seen: HashMap<String, Span> = HashMap::new();
    for (index, (node, path)) in f.list("plugins", faults).into_iter().enumerate() {
        let Some(entry) = Fields::of(node, &path, &["name", "type", "parameters"], faults) else { continue };
        let type_of = entry.string("type", faults).filter(|(t, _)| !t.is_empty());
        let name_of = entry.string("name", faults).filter(|(n, _)| !n.is_empty());
        if type_of.is_none() && entry.node("type").is_none_or(|(n, _)| n.as_str() == Some("")) {
            let at = entry.key_span("type").or(name_of.map(|(_, s)| s)).unwrap_or(node.span);
            let which = name_of.map_or_else(|| format!("`{path}`"), |(n, _)| format!("plugin {}", quote(n)));
            faults
                .error(Code::MissingType, at, format!("{path}.type"), format!("{which} is missing a `type`"))
                .label("every plugin has a `type`");
        }
        let parameters = entry.node("parameters").map(|(n, _)| n.clone());
        if let Some(p) = parameters.as_ref().filter(|p| p.entries().is_none()) {
            read::wrong_type(p, &format!("{path}.parameters"), "a mapping", faults);
        }
        let (type_name, type_span) = type_of.unwrap_or(("", node.span));
        let (name, name_span) = name_of.unwrap_or((type_name, type_span));
        if !name.is_empty()
            && let Some(first) = seen.insert(name.to_owned(), name_span)
        {
            faults
                .error(
                    Code::DuplicatePlugin,
                    name_span,
                    format!("{path}.name"),
                    format!("duplicate plugin name {}", quote(name)),
                )
                .label_at(first, "has it already; give one of them a `name`");
            seen.insert(name.to_owned(), first);
        }
        out.push(PluginDecl {
            name: name.to_owned(),
            type_name: type_name.to_owned(),
            parameters,
            index,
            span: node.span,
            name_span,
            type_span,
        });
    }
    out
}

fn profiles(f: &Fields<'_>, faults: &mut Faults) -> Vec<ProfileDecl> {
    let mut out: Vec<ProfileDecl> = Vec::new();
    let mut seen: HashMap<String, Span> = HashMap::new();
    for (node, path) in f.list("schedulingProfiles", faults) {
        let Some(entry) = Fields::of(node, &path, &["name", "plugins"], faults) else { continue };
        let name_of = entry.string("name", faults).filter(|(n, _)| !n.is_empty());
        if name_of.is_none() && entry.node("name").is_none_or(|(n, _)| n.as_str() == Some("")) {
            let at = entry.key_span("name").or(entry.key_span("plugins")).unwrap_or(node.span);
            faults
                .error(Code::MissingProfileName, at, format!("{path}.name"), format!("{path} is missing a `name`"))
                .label("every profile has a `name`");
        }
        let (name, name_span) = name_of.unwrap_or(("", node.span));
        if !name.is_empty()
            && let Some(first) = seen.insert(name.to_owned(), name_span)
        {
            faults
                .error(
                    Code::DuplicateProfile,
                    name_span,
                    format!("{path}.name"),
                    format!("duplicate profile name {}", quote(name)),
                )
                .label_at(first, "has it already");
            seen.insert(name.to_owned(), first);
        }
        let plugins =
            entry.list("plugins", faults).into_iter().filter_map(|(n, p)| profile_plugin(n, &p, faults)).collect();
        out.push(ProfileDecl { name: name.to_owned(), name_span, span: node.span, plugins });
    }
    out
}

fn profile_plugin(node: &Node, path: &str, faults: &mut Faults) -> Option<PluginRef> {
    let entry = Fields::of(node, path, &["pluginRef", "weight"], faults)?;
    let reference = entry.plugin_ref(node.span, faults);
    let weight_node = entry.node("weight");
    let weight = weight_node.as_ref().and_then(|(n, p)| read::number(n, p, faults));
    let reference = reference?;
    let weight_span = weight_node.map(|(n, _)| n.span);
    if let (Some(0.0), Some(span)) = (weight, weight_span) {
        faults.warning(
            Code::ZeroWeight,
            span,
            format!("{path}.weight"),
            format!("weight 0 switches {} off", quote(&reference.name)),
        );
    }
    if let (Some(_), Some(span)) = (weight.filter(|w| w.abs() > MAX_WEIGHT), weight_span) {
        faults
            .error(
                Code::OutOfRange,
                span,
                format!("{path}.weight"),
                format!(
                    "weight of {} is out of range: sums of such weights are no numbers any more",
                    quote(&reference.name)
                ),
            )
            .label(format!("at most {MAX_WEIGHT:e}; only ratios of weights matter"));
    }
    Some(PluginRef { reference, weight, weight_span })
}

fn data_layer(node: &Node, path: &str, faults: &mut Faults) -> DataLayer {
    let Some(f) = Fields::of(node, path, DATA_LAYER_FIELDS, faults) else { return DataLayer::default() };
    let mut sources = Vec::new();
    for (node, path) in f.list("sources", faults) {
        let Some(entry) = Fields::of(node, &path, &["pluginRef", "extractors"], faults) else { continue };
        let source = entry.plugin_ref(node.span, faults);
        let extractors = plugin_refs(&entry, "extractors", faults);
        if let Some(source) = source {
            sources.push(SourceDecl { source, extractors });
        }
    }
    let out = DataLayer {
        inject_defaults: f.bool("injectDefaults", faults).unwrap_or(true),
        inject_defaults_span: f.node("injectDefaults").map(|(n, _)| n.span),
        sources,
        discovery: f.wrapped_reference("discovery", faults),
        peer_discovery: f.wrapped_reference("peerDiscovery", faults),
        cross_replica_syncer: f.reference("crossReplicaSyncerPluginRef", faults),
        cross_replica_sync_interval: f.duration("crossReplicaSyncInterval", true, faults),
    };
    if let (Some(_), Some(span)) = (&out.peer_discovery, f.key_span("peerDiscovery")) {
        faults.warning(
            Code::FieldWithoutEffect,
            span,
            "dataLayer.peerDiscovery",
            "`peerDiscovery` is accepted, but has no effect",
        );
    }
    out
}

fn request_handler(node: &Node, path: &str, faults: &mut Faults) -> RequestHandler {
    let Some(f) = Fields::of(node, path, &["parsers"], faults) else { return RequestHandler::default() };
    RequestHandler { parsers: plugin_refs(&f, "parsers", faults) }
}

/// A list of `{pluginRef: name}`.
fn plugin_refs(f: &Fields<'_>, name: &str, faults: &mut Faults) -> Vec<Reference> {
    let mut out = Vec::new();
    for (node, path) in f.list(name, faults) {
        let entry = Fields::of(node, &path, &["pluginRef"], faults);
        out.extend(entry.and_then(|e| e.plugin_ref(node.span, faults)));
    }
    out
}

/// `saturationDetector` and `parser` at the top: moved to their new places unless those are taken.
fn deprecated_forms(f: &Fields<'_>, document: &mut Document, faults: &mut Faults) {
    if let Some(span) = f.key_span("saturationDetector").filter(|_| f.node("saturationDetector").is_some()) {
        let old = f.wrapped_reference("saturationDetector", faults);
        let taken = document.flow_control.saturation_detector.is_some();
        moved(span, "saturationDetector", "flowControl.saturationDetector", taken, faults);
        if !taken {
            document.flow_control.saturation_detector = old;
        }
    }
    if let Some(span) = f.key_span("parser").filter(|_| f.node("parser").is_some()) {
        let old = f.wrapped_reference("parser", faults);
        let taken = !document.request_handler.parsers.is_empty();
        moved(span, "parser", "requestHandler.parsers", taken, faults);
        if !taken {
            document.request_handler.parsers.extend(old);
        }
    }
}

fn moved(span: Span, old: &str, new: &str, taken: bool, faults: &mut Faults) {
    let also = if taken { "; ignored, because the new field is set too" } else { "" };
    faults
        .warning(Code::DeprecatedField, span, old, format!("top-level `{old}` is deprecated{also}"))
        .label(format!("use `{new}`"));
}
