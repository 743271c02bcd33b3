//! The declarations of a document, with defaults injected (plugin specification 1.5).

use crate::row::Row;
use crate::table::row;
use pointsman_config::document::{Document, Reference, SourceDecl};
use pointsman_config::registry::Checked;
use pointsman_config::{Code, Faults, Kind, Params, Span};
use std::sync::Arc;

/// One instance to be made.
#[derive(Clone)]
pub(super) struct Decl {
    pub(super) name: Arc<str>,
    pub(super) row: &'static Row,
    pub(super) params: Params,
    /// Not written by anybody.
    pub(super) injected: bool,
    pub(super) span: Span,
    pub(super) path: String,
}

impl Decl {
    pub(super) fn injected(row: &'static Row) -> Self {
        Self {
            name: row.type_name.into(),
            row,
            params: Params::defaults(row.params),
            injected: true,
            span: Span::START,
            path: format!("plugins({})", row.type_name),
        }
    }

    pub(super) fn is(&self, kind: Kind) -> bool {
        self.row.kinds.contains(&kind)
    }
}

/// A plugin in a profile.
#[derive(Clone)]
pub(super) struct Member {
    /// Number of the declaration.
    pub(super) decl: usize,
    pub(super) weight: f64,
    pub(super) weight_given: bool,
    pub(super) injected: bool,
}

/// A profile with its members.
#[derive(Clone)]
pub(super) struct ProfilePlan {
    pub(super) name: Arc<str>,
    pub(super) members: Vec<Member>,
    pub(super) injected: bool,
}

/// A data source with its extractors: numbers of declarations, and where each is named.
pub(super) struct SourcePlan {
    pub(super) decl: usize,
    pub(super) place: (Span, String),
    pub(super) extractors: Vec<(usize, (Span, String))>,
}

/// Everything declared, defaults included.
pub(super) struct Declared {
    pub(super) decls: Vec<Decl>,
    pub(super) profiles: Vec<ProfilePlan>,
    pub(super) handler: Option<usize>,
    pub(super) parsers: Vec<usize>,
    /// Sources with their extractors.
    pub(super) sources: Vec<SourcePlan>,
    pub(super) discovery: Option<usize>,
    /// Nothing was written: the built-in document is in force.
    pub(super) built_in: bool,
    pub(super) document: Document,
}

impl Declared {
    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.decls.iter().position(|d| &*d.name == name)
    }

    /// The declaration of that name, made from the type of the same name when there is none.
    pub(super) fn position_or_inject(&mut self, type_name: &str) -> Option<usize> {
        self.position(type_name).or_else(|| {
            let row = row(type_name).filter(|r| r.build.is_some())?;
            self.decls.push(Decl::injected(row));
            Some(self.decls.len() - 1)
        })
    }
}

/// Declares everything. `None` when the document itself is already beyond use.
pub(super) fn declare(checked: Checked, built_in: bool, faults: &mut Faults) -> Option<Declared> {
    let Checked { document, params } = checked;
    let mut complete = true;
    let mut decls = Vec::with_capacity(document.plugins.len());
    for (plugin, params) in document.plugins.iter().zip(params) {
        match (row(&plugin.type_name), params) {
            (Some(row), Some(params)) if row.build.is_some() => decls.push(Decl {
                name: plugin.name.as_str().into(),
                row,
                params,
                injected: built_in,
                span: plugin.name_span,
                path: plugin.path(),
            }),
            _ => complete = false,
        }
    }
    if !complete && faults.errors() > 0 {
        // What refers to the missing ones would only be reported as a consequence.
        return None;
    }
    let mut declared = Declared {
        decls,
        profiles: Vec::new(),
        handler: None,
        parsers: Vec::new(),
        sources: Vec::new(),
        discovery: document.data_layer.discovery.as_ref().map(|_| 0),
        built_in,
        document,
    };
    profiles(&mut declared, faults);
    handler(&mut declared, faults);
    pickers(&mut declared, faults);
    parsers(&mut declared);
    sources(&mut declared);
    let discovery = declared.document.data_layer.discovery.as_ref().map(|r| r.name.clone());
    declared.discovery = discovery.and_then(|name| declared.position(&name));
    Some(declared)
}

fn profiles(d: &mut Declared, faults: &mut Faults) {
    for profile in &d.document.profiles {
        let mut members = Vec::new();
        for plugin in &profile.plugins {
            let Some(decl) = d.position(&plugin.reference.name) else { continue };
            if let (Some(weight), Some(span)) = (plugin.weight, plugin.weight_span)
                && weight < 0.0
                && d.decls[decl].is(Kind::Scorer)
            {
                let name = &d.decls[decl].name;
                let message =
                    format!("weight {weight} of `{name}` is negative: the best candidates for it become the worst");
                faults.warning(Code::NegativeWeight, span, plugin.reference.path.clone(), message);
            }
            members.push(Member {
                decl,
                weight: plugin.weight.unwrap_or(1.0),
                weight_given: plugin.weight.is_some(),
                injected: d.built_in,
            });
        }
        d.profiles.push(ProfilePlan { name: profile.name.as_str().into(), members, injected: d.built_in });
    }
    if d.profiles.is_empty() {
        let used = |decl: &Decl| [Kind::Filter, Kind::Scorer, Kind::Picker].iter().any(|k| decl.is(*k));
        let members = (0..d.decls.len())
            .filter(|&i| used(&d.decls[i]))
            .map(|decl| Member { decl, weight: 1.0, weight_given: false, injected: true })
            .collect();
        d.profiles.push(ProfilePlan { name: "default".into(), members, injected: true });
    }
}

fn handler(d: &mut Declared, faults: &mut Faults) {
    let handlers: Vec<usize> = (0..d.decls.len()).filter(|&i| d.decls[i].is(Kind::ProfileHandler)).collect();
    match handlers[..] {
        [] if d.profiles.len() == 1 => d.handler = d.position_or_inject("single-profile-handler"),
        // Two profiles of one name are one too many, not two to choose from.
        [] if d.profiles.iter().all(|p| p.name == d.profiles[0].name) => {}
        [] => {
            let at = d.document.profiles.get(1).map_or(Span::START, |p| p.name_span);
            faults
                .error(
                    Code::NoProfileHandler,
                    at,
                    "schedulingProfiles",
                    "no profile handler is configured, and only one profile can do without",
                )
                .label("second profile")
                .help("declare a profile handler plugin, or keep a single profile");
        }
        [one] => d.handler = Some(one),
        [first, second, ..] => {
            let (a, b) = (&d.decls[first], &d.decls[second]);
            faults
                .error(
                    Code::SeveralHandlers,
                    b.span,
                    b.path.clone(),
                    format!("several profile handlers: `{}` and `{}`", a.name, b.name),
                )
                .label("only one is allowed");
        }
    }
}

fn pickers(d: &mut Declared, faults: &mut Faults) {
    let all: Vec<usize> = (0..d.decls.len()).filter(|&i| d.decls[i].is(Kind::Picker)).collect();
    for p in 0..d.profiles.len() {
        let inside: Vec<usize> =
            d.profiles[p].members.iter().map(|m| m.decl).filter(|&i| d.decls[i].is(Kind::Picker)).collect();
        let place = |d: &Declared| d.document.profiles.get(p).map_or(Span::START, |p| p.name_span);
        let picker = match (&inside[..], &all[..]) {
            ([_], _) => continue,
            ([first, second, ..], _) => {
                let (a, b) = (&d.decls[*first], &d.decls[*second]);
                let message =
                    format!("profile `{}` has two pickers: `{}` and `{}`", d.profiles[p].name, a.name, b.name);
                faults
                    .error(Code::SeveralPickers, place(d), format!("schedulingProfiles[{p}]"), message)
                    .label("keep one");
                continue;
            }
            ([], []) => d.position_or_inject("max-score-picker"),
            ([], [one]) => Some(*one),
            ([], [first, second, ..]) => {
                let (a, b) = (&d.decls[*first], &d.decls[*second]);
                let message = format!(
                    "profile `{}` names no picker, and there are `{}` and `{}`",
                    d.profiles[p].name, a.name, b.name
                );
                faults
                    .error(Code::UnclearPicker, place(d), format!("schedulingProfiles[{p}]"), message)
                    .label("name the one to use");
                continue;
            }
        };
        if let Some(decl) = picker {
            d.profiles[p].members.push(Member { decl, weight: 1.0, weight_given: false, injected: true });
        }
    }
}

fn parsers(d: &mut Declared) {
    let mut listed: Vec<String> = d.document.request_handler.parsers.iter().map(|r| r.name.clone()).collect();
    if listed.is_empty() {
        listed =
            ["openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser"].map(str::to_owned).into();
    }
    d.parsers = listed.iter().filter_map(|name| d.position_or_inject(name)).collect();
}

fn sources(d: &mut Declared) {
    let listed: Vec<SourceDecl> = d.document.data_layer.sources.clone();
    let mut metrics = false;
    for source in listed {
        let Some(decl) = d.position_or_inject(&source.source.name) else { continue };
        metrics |= d.decls[decl].row.type_name == "metrics-data-source";
        let place = |r: &Reference| (r.span, r.path.clone());
        let extractors = source.extractors.iter();
        let extractors = extractors.filter_map(|e| Some((d.position_or_inject(&e.name)?, place(e)))).collect();
        d.sources.push(SourcePlan { decl, place: place(&source.source), extractors });
    }
    if !metrics && d.document.data_layer.inject_defaults {
        // By type, not by name: a renamed instance must not be joined by a second, default one.
        let of_type = |d: &Declared, t: &str| d.decls.iter().position(|decl| decl.row.type_name == t);
        let source = of_type(d, "metrics-data-source").or_else(|| d.position_or_inject("metrics-data-source"));
        let extractor = of_type(d, "core-metrics-extractor").or_else(|| d.position_or_inject("core-metrics-extractor"));
        if let (Some(source), Some(extractor)) = (source, extractor) {
            let nowhere = || (Span::START, "dataLayer.sources".to_owned());
            let extractors = vec![(extractor, nowhere())];
            d.sources.push(SourcePlan { decl: source, place: nowhere(), extractors });
        }
    }
}
