//! Names that are referred to must be declared, or be made by defaults.

use std::collections::HashSet;

use super::{Document, Reference};
use crate::fault::{Code, Faults, did_you_mean, listed, nearest, quote};

/// Checks every reference for which names alone suffice. `made_by_defaults` are the instances that the injection of defaults will
/// create whatever the document says (`max-score-picker`, `fcfs-ordering-policy`, ...).
///
/// Parsers are left to [`crate::registry::check_types`]: a listed name that no plugin has is made from the type of that name.
/// References of the flow-control section count only while its feature gate is on; else they are warnings.
pub fn check_references(document: &Document, made_by_defaults: &[&str], faults: &mut Faults) {
    let declared: Vec<&str> = document.plugins.iter().map(|p| p.name.as_str()).filter(|n| !n.is_empty()).collect();
    let known: HashSet<&str> = declared.iter().chain(made_by_defaults).copied().collect();
    let mut check = |severe: bool, reference: &Reference, who: &dyn Fn() -> String| {
        if known.contains(reference.name.as_str()) {
            return;
        }
        // Advice takes time in proportion to the names there are; what would not be shown needs none.
        let advise = !faults.is_full();
        let message = format!("{} refers to plugin {}, which is not defined", who(), quote(&reference.name));
        let fault = faults.report(severe, Code::UndefinedPlugin, reference.span, reference.path.clone(), message);
        if !advise {
            return;
        }
        match nearest(&reference.name, declared.iter().chain(made_by_defaults).copied()) {
            Some(near) => fault.label(did_you_mean(&reference.name, near)),
            None if declared.is_empty() => fault.label("no plugins are defined"),
            None => fault.label(format!("defined are: {}", listed(declared.iter().copied()))),
        };
    };
    for profile in &document.profiles {
        for plugin in &profile.plugins {
            check(true, &plugin.reference, &|| format!("profile {}", quote(&profile.name)));
        }
    }
    let data = &document.data_layer;
    for source in &data.sources {
        check(true, &source.source, &|| "`dataLayer.sources`".to_owned());
        for extractor in &source.extractors {
            check(true, extractor, &|| format!("data source {}", quote(&source.source.name)));
        }
    }
    let flow = &document.flow_control;
    let gate = document.feature_gates.flow_control;
    let bands = flow
        .priority_bands
        .iter()
        .chain(&flow.default_priority_band)
        .chain(&flow.default_negative_priority_band)
        .flat_map(|b| b.fairness_policy.iter().chain(&b.ordering_policy));
    let single = [
        (true, data.discovery.as_ref()),
        (true, data.cross_replica_syncer.as_ref()),
        (gate, flow.usage_limit_policy.as_ref()),
        (true, flow.saturation_detector.as_ref()),
    ];
    let all = single.into_iter().filter_map(|(severe, r)| Some((severe, r?))).chain(bands.map(|r| (gate, r)));
    for (severe, reference) in all {
        check(severe, reference, &|| format!("`{}`", reference.path));
    }
}
