//! What a configuration counts on.

use std::sync::Arc;

use pointsman_plugins::data_layer::core_metrics_extractor::EngineMappings;
use pointsman_plugins::data_layer::source::DataSource;
use pointsman_plugins::row::Signal;
use pointsman_plugins::{Compiled, CompiledSource, table};
use serde_json::Value;

/// What a configuration counts on.
#[derive(Clone, Debug, Default)]
pub(super) struct Wants {
    /// Where metrics are fetched.
    pub(super) source: Option<Arc<DataSource>>,
    /// How they are read.
    pub(super) mappings: Option<EngineMappings>,
    /// Gauges, with the plugin that reads each.
    pub(super) signals: Vec<(Signal, String)>,
    /// The prefix index.
    pub(super) prefix: Option<PrefixIndex>,
    /// The plugin that follows KV events.
    pub(super) kv_events: Option<String>,
}

/// The prefix index of a configuration.
#[derive(Clone, Debug)]
pub(super) struct PrefixIndex {
    /// Its producer.
    pub(super) name: String,
    /// Tokens in its blocks, as far as no engine says otherwise.
    pub(super) block_tokens: u64,
    /// Whether it follows what engines report.
    pub(super) auto_tune: bool,
}

impl Wants {
    pub(super) fn of(compiled: &Compiled) -> Self {
        let engines = |s: &CompiledSource| s.extractors.iter().find_map(|e| e.engines().cloned());
        let source = compiled.sources.iter().find(|s| engines(s).is_some());
        let mut signals: Vec<(Signal, String)> = Vec::new();
        for scorer in compiled.scheduler.profiles.iter().flat_map(|p| &p.scorers) {
            let row = table::row(&scorer.scorer.type_name);
            for signal in row.into_iter().flat_map(|r| r.signals) {
                if !signals.iter().any(|(s, _)| s == signal) {
                    signals.push((*signal, scorer.scorer.name.to_string()));
                }
            }
        }
        let of_type = |t: &str| compiled.plugins.iter().find(|p| p.type_name == t).map(|p| p.name.to_string());
        Self {
            source: source.map(|s| Arc::clone(&s.source)),
            mappings: source.and_then(engines),
            signals,
            prefix: compiled.prefix.first().map(|p| PrefixIndex {
                name: p.name.to_string(),
                block_tokens: p.state.block_tokens().into(),
                auto_tune: parameter(&compiled.effective, &p.name, "autoTune") == Some(&Value::Bool(true)),
            }),
            kv_events: of_type("precise-prefix-cache-producer").or_else(|| of_type("precise-prefix-cache-scorer")),
        }
    }
}

fn parameter<'v>(effective: &'v Value, plugin: &str, name: &str) -> Option<&'v Value> {
    let plugins = effective["plugins"].as_array()?;
    plugins.iter().find(|p| p["name"] == plugin)?["parameters"].get(name)
}
