//! Presets: weights to begin with, by what a fleet mostly serves. They differ in nothing but the four weights.

/// A named set of weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Preset {
    /// Name.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static str,
    /// Weight of `prefix-cache-scorer`.
    pub prefix: f64,
    /// Weight of `kv-cache-utilization-scorer`.
    pub kv_cache: f64,
    /// Weight of `queue-scorer`.
    pub queue: f64,
    /// Weight of `lora-affinity-scorer`.
    pub lora: f64,
}

/// All of them.
pub const PRESETS: &[Preset] = &[
    preset("chatbot", "Conversations that grow: each turn repeats the ones before it.", [0.60, 0.15, 0.15, 0.10]),
    preset("code-completion", "Many short requests over the same files.", [0.55, 0.20, 0.20, 0.05]),
    preset("batch", "Work that nobody waits for: keep all engines busy and none full.", [0.15, 0.45, 0.35, 0.05]),
    preset("multi-tenant-lora", "Many adapters that take turns in few slots.", [0.30, 0.15, 0.15, 0.40]),
    preset("rag", "Long documents in front of short questions.", [0.50, 0.25, 0.20, 0.05]),
    preset("low-latency", "The first token counts: short queues before warm caches.", [0.25, 0.30, 0.40, 0.05]),
];

const fn preset(name: &'static str, doc: &'static str, [prefix, kv_cache, queue, lora]: [f64; 4]) -> Preset {
    Preset { name, doc, prefix, kv_cache, queue, lora }
}

impl Preset {
    /// By its name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Preset> {
        PRESETS.iter().find(|p| p.name == name)
    }

    /// The whole document.
    #[must_use]
    pub fn document(&self) -> String {
        let Self { name, doc, prefix, kv_cache, queue, lora } = self;
        format!(
            "# Preset {name}. {doc}\n\
             apiVersion: llm-d.ai/v1alpha1\n\
             kind: EndpointPickerConfig\n\
             plugins:\n\
             - type: prefix-cache-scorer\n\
             - type: kv-cache-utilization-scorer\n\
             - type: queue-scorer\n\
             - type: lora-affinity-scorer\n\
             - type: max-score-picker\n\
             schedulingProfiles:\n\
             - name: default\n  plugins:\n  \
             - pluginRef: prefix-cache-scorer\n    weight: {prefix:.2}\n  \
             - pluginRef: kv-cache-utilization-scorer\n    weight: {kv_cache:.2}\n  \
             - pluginRef: queue-scorer\n    weight: {queue:.2}\n  \
             - pluginRef: lora-affinity-scorer\n    weight: {lora:.2}\n  \
             - pluginRef: max-score-picker\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CompileOptions, DefaultProfile, compile};
    use pointsman_config::Faults;
    use std::sync::Arc;

    #[test]
    fn every_preset_is_a_document_without_faults_whose_weights_add_up_to_one() {
        for preset in PRESETS {
            let sum = preset.prefix + preset.kv_cache + preset.queue + preset.lora;
            assert!((sum - 1.0).abs() < 1e-9, "{}: {sum}", preset.name);
            let options =
                CompileOptions { allow_experimental: false, default: DefaultProfile::Epp, states: Arc::default() };
            let mut faults = Faults::new();
            let compiled = compile(preset.document().as_bytes(), &options, &mut faults).expect(preset.name);
            assert!(faults.is_empty(), "{}: {:?}", preset.name, faults.sorted());
            let weights: Vec<f64> = compiled.scheduler.profiles[0].scorers.iter().map(|s| s.weight).collect();
            assert_eq!(weights, [preset.prefix, preset.kv_cache, preset.queue, preset.lora]);
        }
    }
}
