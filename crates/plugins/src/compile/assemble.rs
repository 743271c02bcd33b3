//! Instances, and the scheduler made of them.

use super::bind::{Bound, producer_order, provides_engine_metrics};
use super::declare::{Decl, Declared};
use super::{Compiled, NamedPlugin, effective, sources};
use crate::build::{Activation, Build, ColumnTable, Instance, Parts};
use crate::learned::LearnedStates;
use crate::parsers::ParserTable;
use pointsman_config::{Code, Faults, Kind, Span};
use pointsman_scheduling::{Columns, Named, Profile, Scheduler, WeightedScorer};
use std::sync::Arc;

/// Makes an instance of every declaration.
pub(super) fn instances(
    d: &Declared,
    bound: &Bound,
    columns: &ColumnTable,
    states: &LearnedStates,
    activations: &mut Vec<Activation>,
    faults: &mut Faults,
) -> Vec<Instance> {
    let profiles: Vec<Arc<str>> = d.profiles.iter().map(|p| Arc::clone(&p.name)).collect();
    let types = d.decls.iter().map(|decl| (Arc::clone(&decl.name), decl.row.type_name)).collect();
    let mut parts = Parts { types, gauges: provides_engine_metrics(d), ..Parts::default() };
    let mut made: Vec<Option<Instance>> = d.decls.iter().map(|_| None).collect();
    // What others are made of comes first, wherever it stands in the document.
    for first in [true, false] {
        for (i, decl) in d.decls.iter().enumerate().filter(|(_, decl)| is_part(decl) == first) {
            let mut build = Build {
                name: Arc::clone(&decl.name),
                type_name: decl.row.type_name,
                params: &decl.params,
                profiles: &profiles,
                columns,
                parts: &parts,
                bound: &bound[i],
                states,
                activations,
                faults,
            };
            let instance = decl.row.build.map(|f| f(&mut build)).unwrap_or_default();
            if let Some(decider) = &instance.decider {
                parts.deciders.insert(Arc::clone(&decl.name), Arc::clone(decider));
            }
            if let Some(topology) = &instance.topology {
                parts.topologies.insert(Arc::clone(&decl.name), Arc::clone(topology));
            }
            if let Some(extractor) = &instance.extractor {
                parts.attributes.extend(extractor.attributes());
            }
            made[i] = Some(instance);
        }
    }
    made.into_iter().map(Option::unwrap_or_default).collect()
}

fn is_part(decl: &Decl) -> bool {
    decl.is(Kind::Decider) || decl.is(Kind::Extractor)
}

/// Puts the instances in their places.
pub(super) fn assemble(
    d: &Declared,
    bound: &Bound,
    instances: Vec<Instance>,
    (columns, table): (Columns, ColumnTable),
    activations: Vec<Activation>,
    faults: &mut Faults,
) -> Option<Compiled> {
    let named = |i: usize| (d.decls[i].row.type_name, Arc::clone(&d.decls[i].name));
    let handler_at = d.handler?;
    let handler = &instances[handler_at];
    if handler.single_profile && d.profiles.len() > 1 {
        let at = d.document.profiles.get(1).map_or(Span::START, |p| p.name_span);
        let message =
            format!("`{}` runs a single profile, and there are {}", d.decls[handler_at].name, d.profiles.len());
        faults.error(Code::SingleProfile, at, "schedulingProfiles", message).label("second profile");
    }
    let mut profiles = Vec::with_capacity(d.profiles.len());
    for plan in &d.profiles {
        let (mut filters, mut scorers, mut picker) = (Vec::new(), Vec::new(), None);
        for member in &plan.members {
            let instance = &instances[member.decl];
            let (type_name, name) = named(member.decl);
            if let Some(filter) = &instance.filter {
                filters.push(Named::new(type_name, Arc::clone(&name), Arc::clone(filter)));
            }
            if let Some(scorer) = &instance.scorer {
                let scorer = Named::new(type_name, Arc::clone(&name), Arc::clone(scorer));
                scorers.push(WeightedScorer { scorer, weight: member.weight });
            }
            if let Some(p) = &instance.picker {
                picker = Some(Named::new(type_name, Arc::clone(&name), Arc::clone(p)));
            }
        }
        profiles.push(Profile::new(Arc::clone(&plan.name), filters, scorers, picker?));
    }
    let (type_name, name) = named(handler_at);
    let scheduler = Scheduler { handler: Named::new(type_name, name, Arc::clone(handler.handler.as_ref()?)), profiles };
    let producers = producer_order(d, bound, faults)
        .into_iter()
        .filter_map(|i| {
            let (type_name, name) = named(i);
            instances[i].producer.as_ref().map(|p| Named::new(type_name, name, Arc::clone(p)))
        })
        .collect();
    fn each<T: ?Sized>(
        d: &Declared,
        instances: &[Instance],
        of: impl Fn(&Instance) -> Option<&Arc<T>>,
    ) -> Vec<Named<T>> {
        let named = |(decl, instance): (&Decl, &Instance)| {
            Some(Named::new(decl.row.type_name, Arc::clone(&decl.name), Arc::clone(of(instance)?)))
        };
        d.decls.iter().zip(instances).filter_map(named).collect()
    }
    let listed = d.parsers.iter().filter_map(|&i| Some((Arc::clone(&d.decls[i].name), instances[i].parser?))).collect();
    let (parsers, skipped) = ParserTable::new(listed);
    for name in skipped {
        if let Some(reference) = d.document.request_handler.parsers.iter().find(|r| *r.name == *name) {
            let message =
                format!("parser `{name}` is never asked: its type, or a parser that takes everything, comes before it");
            faults.warning(Code::ParserNeverAsked, reference.span, reference.path.clone(), message);
        }
    }
    let sources = sources::sources(d, &instances, faults);
    let prefix: Vec<_> = instances.iter().filter_map(|i| i.prefix.clone()).collect();
    if let [first, rest @ ..] = &prefix[..] {
        // As they are declared: what their indexes are built with by now may be older.
        for other in rest.iter().filter(|o| o.declared_blocks() != first.declared_blocks()) {
            let at = d.position(&other.name).map(|i| (d.decls[i].span, d.decls[i].path.clone())).unwrap_or_default();
            let message =
                format!("`{}` and `{}` use different block sizes; prompts are hashed once", first.name, other.name);
            faults.error(Code::BlockSizesDiffer, at.0, at.1, message).label("use one block size");
        }
    }
    Some(Compiled {
        scheduler,
        producers,
        hooks: each(d, &instances, |i| i.hooks.as_ref()),
        request_hooks: each(d, &instances, |i| i.request.as_ref()),
        response_hooks: each(d, &instances, |i| i.response.as_ref()),
        usage_hooks: each(d, &instances, |i| i.usage.as_ref()),
        admitters: each(d, &instances, |i| i.admitter.as_ref()),
        parsers,
        columns,
        reads_tokens: d.decls.iter().any(|decl| decl.is(Kind::Producer)),
        prefix,
        encoders: instances.iter().filter_map(|i| i.encoder.clone()).collect(),
        estimate: instances.iter().find_map(|i| i.estimate.clone()).unwrap_or_default(),
        render: instances.iter().find_map(|i| i.render.clone()),
        batchers: each(d, &instances, |i| i.batcher.as_ref()),
        blocks: instances.iter().find_map(|i| i.blocks),
        sources,
        discovery: d.discovery.and_then(|i| instances[i].discovery.clone()),
        effective: effective::document(d),
        secrets: effective::secrets(d),
        table,
        activations,
        warnings: Vec::new(),
        plugins: d
            .decls
            .iter()
            .map(|x| NamedPlugin { name: Arc::clone(&x.name), type_name: x.row.type_name })
            .collect(),
    })
}
