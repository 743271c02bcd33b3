//! Checks of a document against the registry.

use std::collections::HashMap;

use super::{Kind, Registry, Stability};
use crate::document::{Decoded, Document, PluginDecl, Reference, check_references, decode};
use crate::fault::{Code, Faults, did_you_mean, listed, nearest, nearest_few, quote};
use crate::params::{self, Params};

/// A document that went through all checks.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The document.
    pub document: Document,
    /// The decoded parameters of each plugin, in the order of [`Document::plugins`]; `None` where the type is unknown.
    pub params: Vec<Option<Params>>,
}

/// Decodes and checks a document as far as it can be without injecting defaults. `None` with no errors means that there is no
/// document; a document with errors among the `faults` must not be run.
pub fn check(
    bytes: &[u8],
    registry: &dyn Registry,
    made_by_defaults: &[&str],
    allow_experimental: bool,
    faults: &mut Faults,
) -> Option<Checked> {
    check_decoded(decode(bytes, faults), registry, made_by_defaults, allow_experimental, faults)
}

/// The same of a document that was decoded already.
pub fn check_decoded(
    decoded: Decoded,
    registry: &dyn Registry,
    made_by_defaults: &[&str],
    allow_experimental: bool,
    faults: &mut Faults,
) -> Option<Checked> {
    let Decoded::Document(document) = decoded else { return None };
    check_references(&document, made_by_defaults, faults);
    let params = check_types(&document, registry, allow_experimental, faults);
    Some(Checked { document: *document, params })
}

/// Checks every plugin's type and parameters, and that references point at plugins of the right kind. Returns the decoded parameters
/// in the order of [`Document::plugins`].
pub fn check_types(
    document: &Document,
    registry: &dyn Registry,
    allow_experimental: bool,
    faults: &mut Faults,
) -> Vec<Option<Params>> {
    let params = document.plugins.iter().map(|p| check_plugin(p, registry, allow_experimental, faults)).collect();
    check_kinds(document, registry, faults);
    params
}

fn check_plugin(
    p: &PluginDecl,
    registry: &dyn Registry,
    allow_experimental: bool,
    faults: &mut Faults,
) -> Option<Params> {
    if p.type_name.is_empty() {
        return None;
    }
    let path = format!("{}.type", p.path());
    let Some(info) = registry.lookup(&p.type_name) else {
        unknown_type(&p.type_name, &p.path(), &path, p, registry, faults);
        return None;
    };
    let name = quote(&p.type_name);
    if !info.available {
        faults
            .error(Code::NotAvailable, p.type_span, path, format!("plugin type {name} is known, not yet available"))
            .label("not in this release");
    } else if info.stability == Stability::Alpha && !allow_experimental {
        faults
            .error(Code::Experimental, p.type_span, path, format!("plugin type {name} is experimental (Alpha)"))
            .label("start with --allow-experimental-plugins to use it");
    } else if let Some(instead) = info.deprecated {
        faults.warning(Code::DeprecatedType, p.type_span, path, format!("plugin type {name} is deprecated: {instead}"));
    }
    let path = format!("{}.parameters", p.path());
    let node = p.parameters.as_ref().filter(|n| n.entries().is_some());
    if info.params.is_empty() {
        // A type that cannot run yet may have parameters that are not described yet.
        if let Some(node) = node.filter(|n| info.available && n.entries().is_some_and(|e| !e.is_empty())) {
            let at = node.entries().and_then(|e| e.first()).map_or(node.span, |(k, _)| k.span);
            faults
                .error(Code::NoParameters, at, path.clone(), format!("plugin type {name} has no parameters"))
                .label("remove this");
        }
        return Some(params::decode(None, &[], p.span, &path, faults));
    }
    if node.is_none() && p.parameters.as_ref().is_some_and(|n| !n.is_null()) {
        // What is no mapping is a fault already; nothing follows from what it leaves out.
        let mut params = params::decode(None, info.params, p.type_span, &path, &mut Faults::new());
        params.doubt();
        return Some(params);
    }
    Some(params::decode(node, info.params, p.type_span, &path, faults))
}

fn unknown_type(name: &str, entry: &str, path: &str, p: &PluginDecl, registry: &dyn Registry, faults: &mut Faults) {
    let names = if faults.is_full() { Vec::new() } else { registry.names() };
    let fault = faults.error(Code::UnknownType, p.type_span, path, format!("unknown plugin type {}", quote(name)));
    match nearest(name, names.iter().copied()) {
        Some(near) => fault.label(did_you_mean(name, near)),
        None => fault
            .label("no known type is spelt like this")
            .help(format!("`{entry}`: nearest known types are {}", listed(nearest_few(name, names, 4)))),
    };
}

fn check_kinds(document: &Document, registry: &dyn Registry, faults: &mut Faults) {
    // Of two plugins with one name (an error already) the first counts.
    let types: HashMap<&str, &str> =
        document.plugins.iter().rev().map(|p| (p.name.as_str(), p.type_name.as_str())).collect();
    let kinds_of = |name: &str| registry.lookup(types.get(name)?).map(|i| i.kinds);
    let mut wants = |severe: bool, reference: &Reference, kind: Kind| {
        if let Some(kinds) = kinds_of(&reference.name).filter(|k| !k.contains(&kind)) {
            let what = kinds.first().map_or("of no kind", |k| k.with_article());
            faults
                .report(
                    severe,
                    Code::WrongPluginKind,
                    reference.span,
                    reference.path.clone(),
                    format!("plugin {} is not {}", quote(&reference.name), kind.with_article()),
                )
                .label(format!("this is {what}"));
        }
    };
    let (data, flow, gate) = (&document.data_layer, &document.flow_control, document.feature_gates.flow_control);
    for source in &data.sources {
        wants(true, &source.source, Kind::DataSource);
        source.extractors.iter().for_each(|e| wants(true, e, Kind::Extractor));
    }
    data.discovery.iter().for_each(|r| wants(true, r, Kind::Discovery));
    data.cross_replica_syncer.iter().for_each(|r| wants(true, r, Kind::CrossReplicaSyncer));
    flow.saturation_detector.iter().for_each(|r| wants(true, r, Kind::SaturationDetector));
    flow.usage_limit_policy.iter().for_each(|r| wants(gate, r, Kind::UsageLimit));
    let templates = flow.default_priority_band.iter().chain(&flow.default_negative_priority_band);
    for band in flow.priority_bands.iter().chain(templates) {
        band.fairness_policy.iter().for_each(|r| wants(gate, r, Kind::Fairness));
        band.ordering_policy.iter().for_each(|r| wants(gate, r, Kind::Ordering));
    }
    document.request_handler.parsers.iter().for_each(|r| wants(true, r, Kind::Parser));
    for parser in &document.request_handler.parsers {
        if !types.contains_key(parser.name.as_str()) {
            undeclared_parser(parser, registry, faults);
        }
    }
    for plugin in document.profiles.iter().flat_map(|p| &p.plugins) {
        let Some(kinds) = kinds_of(&plugin.reference.name) else { continue };
        let name = quote(&plugin.reference.name);
        if !kinds.iter().any(|k| matches!(k, Kind::Filter | Kind::Scorer | Kind::Picker)) {
            faults.warning(
                Code::NoEffectInProfile,
                plugin.reference.span,
                plugin.reference.path.clone(),
                format!("plugin {name} is neither filter, scorer nor picker and has no effect in a profile"),
            );
        } else if let Some(span) = plugin.weight_span.filter(|_| !kinds.contains(&Kind::Scorer)) {
            faults.warning(
                Code::WeightWithoutEffect,
                span,
                plugin.reference.path.clone(),
                format!("{name} is not a scorer; its weight has no effect"),
            );
        }
    }
}

/// A parser that no plugin declares is made from the type of that name.
fn undeclared_parser(parser: &Reference, registry: &dyn Registry, faults: &mut Faults) {
    let info = registry.lookup(&parser.name);
    let name = quote(&parser.name);
    let (code, what) = match info {
        Some(i) if i.kinds.contains(&Kind::Parser) && i.available => return,
        Some(i) if i.kinds.contains(&Kind::Parser) => {
            (Code::NotAvailable, format!("plugin type {name} is known, not yet available"))
        }
        Some(_) => (Code::WrongPluginKind, format!("plugin {name} is not a parser")),
        None => (Code::UnknownParser, format!("parser {name} is neither a plugin nor a plugin type")),
    };
    let names = if faults.is_full() { Vec::new() } else { registry.names() };
    let parsers: Vec<&str> = names
        .into_iter()
        .filter(|n| registry.lookup(n).is_some_and(|i| i.kinds.contains(&Kind::Parser) && i.available))
        .collect();
    let fault = faults.error(code, parser.span, parser.path.clone(), what);
    match nearest(&parser.name, parsers.iter().copied()).filter(|n| *n != parser.name) {
        Some(near) => fault.label(did_you_mean(&parser.name, near)),
        None => fault.label(format!("parsers are: {}", listed(parsers))),
    };
}
