//! `GET /api/presets`: weights to begin with.

use pointsman_plugins::presets::PRESETS;
use serde_json::{Value, json};

pub(crate) fn all() -> Value {
    let presets = PRESETS.iter().map(|p| {
        json!({
            "name": p.name,
            "summary": p.doc,
            "weights": {
                "prefix-cache-scorer": p.prefix,
                "kv-cache-utilization-scorer": p.kv_cache,
                "queue-scorer": p.queue,
                "lora-affinity-scorer": p.lora,
            },
            "document": p.document(),
        })
    });
    json!({"presets": presets.collect::<Vec<_>>()})
}
