//! Who reads whose data (plugin specification 3.3, 3.4 and its `Wart:` lines).

use super::declare::{Decl, Declared};
use crate::build::ColumnTable;
use crate::row::{Need, Row};
use crate::table::TABLE;
use pointsman_config::{Code, Faults, Kind, Stability, did_you_mean, nearest};
use pointsman_scheduling::{Columns, DataKind};
use std::collections::HashMap;
use std::sync::Arc;

/// For each declaration, which instance answers each of its needs.
pub(super) type Bound = Vec<HashMap<(DataKind, Option<&'static str>), Arc<str>>>;

/// Binds every need, creating default producers until nothing is missing.
pub(super) fn bind(d: &mut Declared, allow_experimental: bool, faults: &mut Faults) -> Bound {
    let mut bound: Bound = Vec::new();
    // Producers that are created here are appended, and bound in their turn.
    while let Some(decl) = d.decls.get(bound.len()).cloned() {
        let mut answers = HashMap::new();
        for need in decl.row.needs.iter().filter(|n| n.required) {
            if let Some(name) = answer(d, &decl, need, faults) {
                answers.insert((need.kind, need.producer_param), name);
            }
        }
        bound.push(answers);
    }
    // Only now is it known who makes what somebody may read.
    for (i, answers) in bound.iter_mut().enumerate() {
        let decl = d.decls[i].clone();
        for need in decl.row.needs.iter().filter(|n| !n.required) {
            if let Some(name) = answer(d, &decl, need, faults) {
                answers.insert((need.kind, need.producer_param), name);
            }
        }
    }
    if !allow_experimental {
        for decl in d.decls.iter().filter(|decl| decl.injected && decl.row.stability == Stability::Alpha && !d.built_in)
        {
            let message = format!("plugin `{}` is needed here and experimental (Alpha)", decl.name);
            faults
                .error(Code::Experimental, decl.span, decl.path.clone(), message)
                .label("start with --allow-experimental-plugins to use it");
        }
    }
    bound
}

/// What a plugin reads, for a person.
fn in_words(kind: DataKind) -> &'static str {
    match kind {
        DataKind::TokenizedPrompt => "the tokens of prompts",
        DataKind::PrefixMatch => "prefix matches",
        DataKind::InFlightLoad => "the load in flight",
        DataKind::UncachedTokens => "the tokens to compute",
        DataKind::EngineMetrics => "engine metrics",
        DataKind::LatencyPrediction => "predicted latencies",
        DataKind::EncoderMatch => "encoder-cache matches",
        DataKind::SessionId => "session ids",
        DataKind::AgentIdentity => "agent identities",
        DataKind::Topology => "the topology",
    }
}

/// Whether any source has an extractor that reads load, KV usage and adapters.
pub(super) fn provides_engine_metrics(d: &Declared) -> bool {
    let gives = |decl: usize| d.decls[decl].row.makes.contains(&DataKind::EngineMetrics);
    d.sources.iter().flat_map(|s| &s.extractors).any(|(e, _)| gives(*e))
}

fn answer(d: &mut Declared, decl: &Decl, need: &Need, faults: &mut Faults) -> Option<Arc<str>> {
    if need.kind == DataKind::EngineMetrics {
        if need.required && !provides_engine_metrics(d) {
            let message = format!(
                "`{}` reads engine metrics, and no data source has `core-metrics-extractor` to provide them",
                decl.name
            );
            faults
                .error(Code::NoEngineMetrics, decl.span, decl.path.clone(), message)
                .help("list `metrics-data-source` with `core-metrics-extractor` under `dataLayer.sources`, or leave `injectDefaults` on");
        }
        return None;
    }
    let makers = |d: &Declared| -> Vec<Arc<str>> {
        d.decls.iter().filter(|m| m.row.makes.contains(&need.kind)).map(|m| Arc::clone(&m.name)).collect()
    };
    let named =
        need.producer_param.filter(|p| decl.params.given(p)).map(|p| decl.params.str(p)).filter(|n| !n.is_empty());
    if let Some(name) = named {
        let param = need.producer_param.unwrap_or_default();
        let known = makers(d);
        if let Some(maker) = known.iter().find(|m| ***m == *name) {
            return Some(Arc::clone(maker));
        }
        // The default producer may be named without being declared.
        let made = |r: &&Row| r.type_name == name && r.default_producer && r.makes.contains(&need.kind);
        if let Some(row) = TABLE.iter().find(made).filter(|_| need.required) {
            return created(d, decl, need, row, faults);
        }
        let (span, path) = (decl.params.span(param), decl.params.path(param));
        let near = nearest(name, known.iter().map(|m| &**m)).map(str::to_owned);
        let message =
            format!("`{}` reads {} of `{name}`, which no plugin of that name provides", decl.name, in_words(need.kind));
        faults.error(Code::UnknownProducer, span, path, message).label(match near {
            Some(near) => did_you_mean(name, &near),
            None => "declare it under `plugins`, or leave the parameter out".to_owned(),
        });
        return None;
    }
    let default = TABLE.iter().find(|r| r.default_producer && r.makes.contains(&need.kind));
    match &makers(d)[..] {
        [] if !need.required => None,
        [] => created(d, decl, need, default?, faults),
        [one] => Some(Arc::clone(one)),
        several => {
            if let Some(maker) = several.iter().find(|m| default.is_some_and(|r| r.type_name == &***m)) {
                return Some(Arc::clone(maker));
            }
            if need.kind == DataKind::TokenizedPrompt {
                return several.first().map(Arc::clone);
            }
            let names = several.iter().map(|m| format!("`{m}`")).collect::<Vec<_>>().join(", ");
            let message = format!("`{}` could read {} of {names}", decl.name, in_words(need.kind));
            faults.error(Code::AmbiguousProducer, decl.span, decl.path.clone(), message).label(
                match need.producer_param {
                    Some(param) => format!("name one in `{param}`"),
                    None => "keep one of them".to_owned(),
                },
            );
            None
        }
    }
}

/// A default producer, which nobody declared.
fn created(d: &mut Declared, decl: &Decl, need: &Need, row: &'static Row, faults: &mut Faults) -> Option<Arc<str>> {
    if let Some(why) = row.must_be_declared {
        let (name, made) = (&decl.name, row.type_name);
        let message = format!("`{name}` reads {}, and `{made}` cannot be created for it: {why}", need.kind.as_str());
        faults
            .error(Code::ProducerNotDeclared, decl.span, decl.path.clone(), message)
            .label(format!("declare a `{made}` under `plugins`"));
        return None;
    }
    d.decls.push(Decl::injected(row));
    Some(row.type_name.into())
}

/// A column for everything that is published. Those of default producers come first: they tell what is, others what is to be, and whoever takes any
/// column takes the first.
pub(super) fn columns(d: &Declared) -> (Columns, ColumnTable) {
    let (mut columns, mut table) = (Columns::default(), ColumnTable::default());
    let (defaults, others): (Vec<&Decl>, Vec<&Decl>) = d.decls.iter().partition(|decl| decl.row.default_producer);
    for decl in defaults.into_iter().chain(others) {
        for kind in decl.row.makes {
            let name = Arc::clone(&decl.name);
            match kind {
                DataKind::PrefixMatch => drop(table.prefix.insert(name, columns.column())),
                DataKind::UncachedTokens => drop(table.uncached.insert(name, columns.column())),
                DataKind::InFlightLoad => drop(table.in_flight.insert(name, columns.column())),
                DataKind::LatencyPrediction => drop(table.latency.insert(name, columns.column())),
                DataKind::EncoderMatch => drop(table.encoder.insert(name, columns.column())),
                DataKind::SessionId | DataKind::AgentIdentity => {
                    let _ = table.texts.insert((*kind, name), columns.text());
                }
                DataKind::TokenizedPrompt | DataKind::EngineMetrics | DataKind::Topology => {}
            }
        }
    }
    (columns, table)
}

/// Producers in an order in which each comes after those it reads; among equals, as declared (Kahn's algorithm).
pub(super) fn producer_order(d: &Declared, bound: &Bound, faults: &mut Faults) -> Vec<usize> {
    let producers: Vec<usize> = (0..d.decls.len()).filter(|&i| d.decls[i].is(Kind::Producer)).collect();
    let reads = |i: usize| bound[i].values().filter_map(|name| d.position(name)).filter(move |&j| j != i);
    let mut order: Vec<usize> = Vec::with_capacity(producers.len());
    while order.len() < producers.len() {
        let next = producers.iter().copied().find(|&i| !order.contains(&i) && reads(i).all(|j| order.contains(&j)));
        let Some(next) = next else {
            let stuck = producers.iter().find(|i| !order.contains(i)).map(|&i| &d.decls[i]);
            if let Some(decl) = stuck {
                faults.error(
                    Code::CyclicData,
                    decl.span,
                    decl.path.clone(),
                    format!("`{}` reads data that depends on its own", decl.name),
                );
            }
            break;
        };
        order.push(next);
    }
    order
}
