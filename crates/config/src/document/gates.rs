//! Feature gates: `name`, `name=true` or `name=false`; the last entry for a name wins.

use crate::fault::{Code, Faults, did_you_mean, listed, nearest, quote};
use crate::yaml::Node;

/// The gates that exist, resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureGates {
    /// `flowControl`: queueing by priority and fairness instead of plain admission. Default false.
    pub flow_control: bool,
    /// `haPopulateNonLeaderDatastore`: replicas that do not lead keep their view of the pool filled too. Default true.
    pub ha_populate_non_leader_datastore: bool,
}

impl Default for FeatureGates {
    fn default() -> Self {
        Self { flow_control: false, ha_populate_non_leader_datastore: true }
    }
}

const KNOWN: [&str; 2] = ["flowControl", "haPopulateNonLeaderDatastore"];
/// Gates of earlier releases whose effect can no longer be switched off, and since when, in releases of llm-d-router
/// (llm-d-router#1728 for the first; the release of the second is not recorded).
const ALWAYS_ON: [(&str, &str); 2] = [("dataLayer", "now, since llm-d-router 0.8"), ("prepareDataPlugins", "now")];

/// Applies all entries. Flow control is not in this release: whoever switches it on is told, since it is left out.
pub(super) fn resolve(entries: &[(&Node, String)], faults: &mut Faults) -> FeatureGates {
    let mut gates = FeatureGates::default();
    let mut on = None;
    for (node, path) in entries {
        apply(&mut gates, node, path, faults);
        on = gates.flow_control.then(|| on.unwrap_or((node.span, path)));
    }
    if let Some((span, path)) = on {
        faults
            .warning(Code::GateNotAvailable, span, path, "feature gate `flowControl` is known, not yet available")
            .label("not in this release: requests are not queued");
    }
    gates
}

/// Applies one entry.
fn apply(gates: &mut FeatureGates, node: &Node, path: &str, faults: &mut Faults) {
    let Some(text) = crate::read::string(node, path, faults) else { return };
    let mut parts = text.split('=');
    let name = parts.next().unwrap_or_default();
    let value = parts.next().map(|v| v.trim().to_lowercase());
    let target = match name {
        "flowControl" => &mut gates.flow_control,
        "haPopulateNonLeaderDatastore" => &mut gates.ha_populate_non_leader_datastore,
        other => {
            if let Some((old, since)) = ALWAYS_ON.iter().find(|(old, _)| *old == other) {
                faults
                    .error(Code::GateAlwaysOn, node.span, path, format!("feature gate `{old}` no longer exists"))
                    .label(format!("always on {since}; remove this entry"));
                return;
            }
            let fault =
                faults.error(Code::UnknownGate, node.span, path, format!("feature gate {} is unknown", quote(other)));
            match nearest(other, KNOWN) {
                Some(near) => fault.label(did_you_mean(other, near)),
                None => fault.label(format!("known are: {}", listed(KNOWN))),
            };
            return;
        }
    };
    match value.as_deref() {
        None | Some("1" | "t" | "true") => *target = true,
        Some("0" | "f" | "false") => *target = false,
        Some(v) => {
            faults
                .error(
                    Code::BadGateValue,
                    node.span,
                    path,
                    format!("{} is not a valid value for the feature gate `{name}`", quote(v)),
                )
                .label("write `true` or `false` after the `=`");
        }
    }
}
