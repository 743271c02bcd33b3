//! What is legal and surely not meant: warnings about a configuration that can be used.

use super::bind::Bound;
use super::declare::{Decl, Declared};
use crate::build::Instance;
use pointsman_config::{Code, Faults, Kind, ParamValue, Params};
use pointsman_scheduling::DataKind;
use std::collections::HashMap;

/// Warns of everything of that sort. What nobody wrote is never warned of.
pub(super) fn lint(d: &Declared, bound: &Bound, instances: &[Instance], faults: &mut Faults) {
    if d.built_in {
        return;
    }
    unused(d, bound, faults);
    listed_twice(d, faults);
    unreachable_profiles(d, instances, faults);
    missing_signals(d, instances, faults);
    no_prompts(d, bound, faults);
}

fn unused(d: &Declared, bound: &Bound, faults: &mut Faults) {
    for (i, decl) in d.decls.iter().enumerate().filter(|(_, decl)| !decl.injected) {
        if let Some(advice) = out_of_use(d, bound, i, decl) {
            let message = format!("plugin `{}` is declared and used nowhere", decl.name);
            faults.warning(Code::UnusedPlugin, decl.span, decl.path.clone(), message).label(advice);
        }
    }
}

/// What to do about a declaration that nothing uses; `None` when something does.
fn out_of_use(d: &Declared, bound: &Bound, i: usize, decl: &Decl) -> Option<&'static str> {
    let mut advice = None;
    for kind in decl.row.kinds {
        let (used, what) = match kind {
            Kind::Filter | Kind::Scorer | Kind::Picker => {
                (d.profiles.iter().any(|p| p.members.iter().any(|m| m.decl == i)), "name it in a profile, or remove it")
            }
            Kind::Producer => {
                let read = bound.iter().enumerate().any(|(j, b)| j != i && b.values().any(|name| *name == decl.name));
                let told = crate::session_affinity::TEXTS.iter().filter(|(_, kind, _)| decl.row.makes.contains(kind));
                let read = read
                    || told.into_iter().any(|(name, ..)| d.decls.iter().any(|other| mentions(&other.params, name)));
                (read || decl.row.makes.is_empty(), "nothing reads what it provides")
            }
            Kind::Extractor => {
                let listed = d.sources.iter().flat_map(|s| &s.extractors).any(|(e, _)| *e == i);
                let read = bound.iter().any(|b| b.values().any(|name| *name == decl.name));
                (listed || read, "list it under a source of `dataLayer.sources`, or remove it")
            }
            Kind::DataSource => (
                d.sources.iter().any(|source| source.decl == i),
                "list it under `dataLayer.sources` with an extractor, or remove it",
            ),
            Kind::Parser => (d.parsers.contains(&i), "list it under `requestHandler.parsers`, or remove it"),
            Kind::Discovery => (d.discovery == Some(i), "name it in `dataLayer.discovery`, or remove it"),
            Kind::Decider => {
                let named = |other: &Decl| mentions(&other.params, &decl.name);
                (d.decls.iter().any(named), "name it in the `deciders` of the profile handler, or remove it")
            }
            // A hook beside these serves them.
            Kind::Hook if [Kind::Filter, Kind::Scorer, Kind::Producer].iter().any(|k| decl.is(*k)) => continue,
            _ => (true, ""),
        };
        if used {
            return None;
        }
        advice = advice.or(Some(what));
    }
    advice
}

/// Whether any parameter is this text.
fn mentions(params: &Params, text: &str) -> bool {
    fn value(v: &ParamValue, text: &str) -> bool {
        match v {
            ParamValue::String(s) => s == text,
            ParamValue::List(items) => items.iter().any(|v| value(v, text)),
            ParamValue::Object(inner) => mentions(inner, text),
            ParamValue::Map(map) => map.values().any(|v| v == text),
            _ => false,
        }
    }
    params.iter().any(|(_, v, _)| value(v, text))
}

fn listed_twice(d: &Declared, faults: &mut Faults) {
    for profile in &d.document.profiles {
        let mut first = HashMap::new();
        for plugin in &profile.plugins {
            let reference = &plugin.reference;
            let Some(decl) = d.position(&reference.name).map(|i| &d.decls[i]) else { continue };
            // Two pickers, be they one, are an error of their own.
            if decl.is(Kind::Picker) {
                continue;
            }
            let Some(&at) = first.get(&reference.name) else {
                first.insert(&reference.name, reference.span);
                continue;
            };
            let effect =
                if decl.is(Kind::Scorer) { "has it already, and its weights add up" } else { "has it already" };
            let message = format!("profile `{}` lists `{}` twice", profile.name, reference.name);
            faults.warning(Code::ListedTwice, reference.span, reference.path.clone(), message).label_at(at, effect);
        }
    }
}

/// Profiles that the handler never comes to run are likely misspelt, there or in its parameters.
fn unreachable_profiles(d: &Declared, instances: &[Instance], faults: &mut Faults) {
    let Some(handler) = d.handler else { return };
    let Some(reach) = &instances[handler].reach else { return };
    for (i, profile) in d.document.profiles.iter().enumerate().filter(|(i, _)| !reach.contains(i)) {
        let handler = &d.decls[handler].name;
        let message = format!("profile `{}` is never run: `{handler}` as it is set does not come to it", profile.name);
        faults
            .warning(Code::UnreachableProfile, profile.name_span, format!("schedulingProfiles[{i}].name"), message)
            .label("name it in the parameters of the profile handler, or remove it");
    }
}

fn missing_signals(d: &Declared, instances: &[Instance], faults: &mut Faults) {
    let listed = || d.sources.iter().flat_map(|s| &s.extractors);
    let extractors = || listed().filter_map(|(e, _)| instances[*e].extractor.as_ref()?.engines());
    for plan in &d.profiles {
        for member in &plan.members {
            let decl = &d.decls[member.decl];
            for &signal in decl.row.signals {
                let lacking = |e: &crate::data_layer::core_metrics_extractor::EngineMappings| !e.default_gives(signal);
                let Some(first) = extractors().next().filter(|_| extractors().all(lacking)) else { continue };
                let engine = first.default_engine();
                let (span, path) = member_place(d, &plan.name, decl).unwrap_or((decl.span, decl.path.clone()));
                let message = format!(
                    "`{}` reads {signal}, and no metric of engine `{engine}` is named for that: it scores everybody alike",
                    decl.name
                );
                faults
                    .warning(Code::MissingSignal, span, path, message)
                    .label("name the metric in `engineConfigs` of `core-metrics-extractor`, or leave this plugin out");
            }
        }
    }
}

/// Where a profile names a plugin.
fn member_place(d: &Declared, profile: &str, decl: &Decl) -> Option<(pointsman_config::Span, String)> {
    let profile = d.document.profiles.iter().find(|p| p.name == profile)?;
    let plugin = profile.plugins.iter().find(|p| *p.reference.name == *decl.name)?;
    Some((plugin.reference.span, plugin.reference.path.clone()))
}

/// Prompts are compared by what a parser reads of them; one that reads nothing leaves nothing to compare.
fn no_prompts(d: &Declared, bound: &Bound, faults: &mut Faults) {
    if d.parsers.iter().any(|&p| d.decls[p].row.type_name != "passthrough-parser") {
        return;
    }
    let compares = |i: usize| bound[i].keys().any(|(kind, _)| *kind == DataKind::PrefixMatch);
    for plan in &d.profiles {
        for member in plan.members.iter().filter(|m| compares(m.decl)) {
            let decl = &d.decls[member.decl];
            let (span, path) = member_place(d, &plan.name, decl).unwrap_or((decl.span, decl.path.clone()));
            let message = format!("`{}` compares prompts, and `passthrough-parser` reads none", decl.name);
            faults
                .warning(Code::NoPrompts, span, path, message)
                .label("add the parser of your API to `requestHandler.parsers`, before `passthrough-parser`");
        }
    }
}
