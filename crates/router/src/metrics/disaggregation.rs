//! How requests are split between engines (metrics 3.3).

use super::Families;
use super::bounded::Bounded;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::sync::Arc;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Decided {
    plugin_name: Arc<str>,
    plugin_type: Arc<str>,
    model_name: Arc<str>,
    decision_type: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OldDecided {
    model_name: Arc<str>,
    decision_type: &'static str,
}

#[derive(Clone, Default)]
struct Counted {
    new: Family<Decided, Counter>,
    old: Family<OldDecided, Counter>,
}

/// See the [module](self).
pub(super) struct Disaggregation {
    stages: Counted,
    prefill_decode: Counted,
    models: Bounded,
}

impl Disaggregation {
    pub(super) fn new(f: &mut Families<'_>) -> Self {
        let mut counted = |name: &str, help: &str| {
            let counted = Counted::default();
            f.new_name(name, help, counted.new.clone());
            f.old_name(&format!("llm_d_inference_scheduler_{name}"), &format!("{name}_total"), counted.old.clone());
            counted
        };
        Self {
            stages: counted("disagg_decision", "Requests by the stages that serve them"),
            prefill_decode: counted("pd_decision", "Requests by whether another engine computes their prompt"),
            models: Bounded::default(),
        }
    }

    /// A request is served in this way, says that profile handler.
    pub(super) fn decided(&self, plugin: (&Arc<str>, &Arc<str>), model: &str, decision_type: &'static str) {
        let (plugin_type, plugin_name) = (Arc::clone(plugin.0), Arc::clone(plugin.1));
        let model_name = self.models.admit(if model.is_empty() { "unknown" } else { model });
        let counted = if *plugin_type == *"pd-profile-handler" { &self.prefill_decode } else { &self.stages };
        counted.old.get_or_create(&OldDecided { model_name: Arc::clone(&model_name), decision_type }).inc();
        counted.new.get_or_create(&Decided { plugin_name, plugin_type, model_name, decision_type }).inc();
    }
}
