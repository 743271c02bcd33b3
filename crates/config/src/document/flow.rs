//! The `flowControl` section.

use std::collections::HashSet;
use std::time::Duration;

use super::Reference;
use crate::fault::{Code, Faults};
use crate::read::Fields;
use crate::yaml::{Node, Span};

/// `flowControl`. `None` everywhere means "not given"; the defaults are the flow layer's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowControl {
    /// `maxBytes`: bytes queued over all bands; 0 or absent means no limit.
    pub max_bytes: Option<u64>,
    /// `maxRequests`: requests queued over all bands; 0 or absent means no limit.
    pub max_requests: Option<u64>,
    /// `defaultRequestTTL`: longest wait while there are endpoints; zero means for ever, absent means 60 s.
    pub default_request_ttl: Option<Duration>,
    /// `noEndpointRequestTTL`: longest wait while there are none; zero means for ever, absent means as `default_request_ttl`.
    pub no_endpoint_request_ttl: Option<Duration>,
    /// `defaultPriorityBand`: what a band made on demand looks like.
    pub default_priority_band: Option<Band>,
    /// `defaultNegativePriorityBand`: the same for priorities below 0.
    pub default_negative_priority_band: Option<Band>,
    /// `priorityBands`, in the order declared.
    pub priority_bands: Vec<Band>,
    /// `usageLimitPolicyPluginRef`.
    pub usage_limit_policy: Option<Reference>,
    /// `saturationDetector.pluginRef`.
    pub saturation_detector: Option<Reference>,
    /// `enableEviction`.
    pub enable_eviction: bool,
}

/// One priority band.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Band {
    /// Higher is more important; without meaning in the two templates.
    pub priority: i64,
    /// Bytes queued; absent or 0 means 1,000,000,000.
    pub max_bytes: Option<u64>,
    /// Requests queued; absent or 0 means 5,000.
    pub max_requests: Option<u64>,
    /// `fairnessPolicyRef`.
    pub fairness_policy: Option<Reference>,
    /// `orderingPolicyRef`.
    pub ordering_policy: Option<Reference>,
    /// The entry.
    pub span: Span,
}

const FIELDS: &[&str] = &[
    "maxBytes",
    "maxRequests",
    "defaultRequestTTL",
    "noEndpointRequestTTL",
    "defaultPriorityBand",
    "defaultNegativePriorityBand",
    "priorityBands",
    "usageLimitPolicyPluginRef",
    "saturationDetector",
    "enableEviction",
];
const BAND_FIELDS: &[&str] = &["priority", "maxBytes", "maxRequests", "fairnessPolicyRef", "orderingPolicyRef"];

/// Decodes the section. While the gate is off the section is not used, so what is wrong with its *values* is only worth a warning
/// then; what is wrong with its shape is an error either way, as in the Go picker.
pub(super) fn decode(node: &Node, gate_on: bool, faults: &mut Faults) -> FlowControl {
    let Some(f) = Fields::of(node, "flowControl", FIELDS, faults) else { return FlowControl::default() };
    let mut out = FlowControl {
        max_bytes: f.quantity("maxBytes", gate_on, faults),
        max_requests: f.quantity("maxRequests", gate_on, faults),
        default_request_ttl: f.duration("defaultRequestTTL", gate_on, faults),
        no_endpoint_request_ttl: f.duration("noEndpointRequestTTL", gate_on, faults),
        default_priority_band: f.node("defaultPriorityBand").and_then(|(n, p)| band(n, &p, gate_on, false, faults)),
        default_negative_priority_band: f
            .node("defaultNegativePriorityBand")
            .and_then(|(n, p)| band(n, &p, gate_on, false, faults)),
        priority_bands: Vec::new(),
        usage_limit_policy: f.reference("usageLimitPolicyPluginRef", faults),
        saturation_detector: f.wrapped_reference("saturationDetector", faults),
        enable_eviction: f.bool("enableEviction", faults).unwrap_or(false),
    };
    let mut seen = HashSet::new();
    for (node, path) in f.list("priorityBands", faults) {
        let Some(band) = band(node, &path, gate_on, true, faults) else { continue };
        if !seen.insert(band.priority) {
            let at = node.get("priority").map_or(node.span, |n| n.span);
            faults
                .report(
                    gate_on,
                    Code::DuplicatePriority,
                    at,
                    format!("{path}.priority"),
                    format!("duplicate priority level {}", band.priority),
                )
                .label("another band has it already");
        }
        out.priority_bands.push(band);
    }
    let given = node.entries().unwrap_or_default();
    if !gate_on && let Some((first, _)) = given.iter().find(|(k, v)| k.text != "saturationDetector" && !v.is_null()) {
        faults
            .warning(
                Code::FlowControlOff,
                first.span,
                "flowControl",
                "`flowControl` is set but its feature gate is off: only `saturationDetector` is used",
            )
            .help("add `flowControl` to `featureGates` to switch it on");
    }
    out
}

fn band(node: &Node, path: &str, gate_on: bool, listed: bool, faults: &mut Faults) -> Option<Band> {
    let f = Fields::of(node, path, BAND_FIELDS, faults)?;
    let priority = f.integer("priority", faults);
    if listed && priority.is_none() && f.node("priority").is_none() {
        faults.warning(
            Code::MissingPriority,
            node.span,
            format!("{path}.priority"),
            "this band has no `priority`; 0 is taken",
        );
    }
    Some(Band {
        priority: priority.unwrap_or(0),
        max_bytes: f.quantity("maxBytes", gate_on, faults),
        max_requests: f.quantity("maxRequests", gate_on, faults),
        fairness_policy: f.reference("fairnessPolicyRef", faults),
        ordering_policy: f.reference("orderingPolicyRef", faults),
        span: node.span,
    })
}
