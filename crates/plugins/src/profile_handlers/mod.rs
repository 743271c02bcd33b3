//! Profile handlers: which profiles run, and whose picks are the answer.

pub mod data_parallel_profile_handler;
pub mod disagg_profile_handler;
pub mod header_profile_handler;
pub mod pd_profile_handler;
pub mod single_profile_handler;

use pointsman_core::{DropReason, ErrorCode, Refusal};
use pointsman_scheduling::Stages;

/// Plugins that two stages need, for examples.
const STAGE_PLUGINS: &[&str] = &[
    "{type: prefix-based-pd-decider, parameters: {nonCachedTokens: 256}}",
    "type: decode-filter",
    "type: prefill-filter",
];

/// Profiles of two stages, for examples.
const STAGES: &[&str] = &[
    "{name: decode, plugins: [{pluginRef: decode-filter}]}",
    "{name: prefill, plugins: [{pluginRef: prefill-filter}]}",
];

/// Why nobody decodes: what the decode profile says, where it ran.
fn nobody_decodes(stages: &Stages<'_>, decode: Option<usize>) -> Refusal {
    decode.and_then(|d| stages.failure(d)).cloned().unwrap_or_else(|| {
        Refusal::new(ErrorCode::ResourceExhausted, "failed to find available decode workers")
            .because(DropReason::Saturated)
    })
}
