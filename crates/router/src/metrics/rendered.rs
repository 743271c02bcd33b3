//! Prompts that a vLLM server rendered, or not.

use super::Families;
use super::buckets;
use super::histogram::Histogram;
use pointsman_plugins::producers::token_producer::render::RenderError;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Asked {
    result: &'static str,
}

/// See the [module](self).
pub(super) struct Rendered {
    asked: Family<Asked, Counter>,
    took: Histogram,
    failed: AtomicU64,
}

impl Rendered {
    pub(super) fn new(f: &mut Families<'_>) -> Self {
        let m = Self {
            asked: Family::default(),
            took: Histogram::new(buckets::REQPROC.iter().copied()),
            failed: AtomicU64::new(0),
        };
        let help = "Prompts that were to be rendered; of those that were not, tokens are estimated";
        f.registry.register("pointsman_rendered_prompts", help, m.asked.clone());
        let help = "Time that requests waited for their prompts to be rendered";
        f.registry.register("pointsman_render_duration_seconds", help, m.took.clone());
        m
    }

    /// A prompt was rendered, or was not for this reason: told in the log the first time, and each time that their number has doubled.
    pub(super) fn rendered(&self, error: Option<&RenderError>, took: Duration) {
        let result = match error {
            None => "rendered",
            Some(_) => "failed",
        };
        self.asked.get_or_create(&Asked { result }).inc();
        self.took.observe(took.as_secs_f64());
        if let Some(error) = error {
            let failed = self.failed.fetch_add(1, Ordering::Relaxed) + 1;
            if failed.is_power_of_two() {
                tracing::warn!(failed, %error, "a prompt could not be rendered; its tokens are estimated");
            }
        }
    }
}
