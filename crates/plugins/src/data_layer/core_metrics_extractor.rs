//! `core-metrics-extractor`: load, KV usage, adapters and cache size from an engine's metrics page.
//!
//! The engine kind comes from the endpoint's label `llm-d.ai/engine-type` (or the older `inference.networking.k8s.io/engine-type`); without one, or with an
//! unknown one, `defaultEngine` applies. A page may hold several series of one family (data-parallel engines, several models): waiting and running are
//! summed, KV usage is the highest, of tensor- or pipeline-parallel ranks only rank 0 counts. Where series carry timestamps the newest one wins.
//!
//! `customMetrics` become attributes of the endpoint, under the key they are given and this instance's name. What several series of one mean together is not
//! known: the newest counts, and the first where none says when it was made. Source: plugin specification 12.2, metrics 4.2 and 4.3 with their `Wart:` lines.

mod accumulate;
mod engines;
mod survey;

use super::extractor::{Extracted, Extractor};
use crate::build::{Build, Instance};
use crate::row::{Kind, Row, Signal, Stability};
use accumulate::Accumulated;
use pointsman_config::{Param, ParamKind, Params};
use pointsman_fleet::{EndpointMeta, Labels, attribute_key};
use pointsman_scheduling::DataKind;
use pointsman_wire::exposition::{Spec, Wanted, scan};
use std::sync::Arc;
pub use survey::Survey;

/// A value that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Waiting,
    Running,
    KvUsage,
    Lora,
    CacheInfo,
    BlockSize,
    NumBlocks,
    /// An attribute, by its number.
    Custom(usize),
}

impl Field {
    fn of(signal: Signal) -> Self {
        match signal {
            Signal::Waiting => Self::Waiting,
            Signal::Running => Self::Running,
            Signal::KvUsage => Self::KvUsage,
            Signal::Lora => Self::Lora,
        }
    }
}

/// Names of one engine kind.
#[derive(Clone, Debug)]
struct Engine {
    name: Arc<str>,
    wanted: Wanted,
    /// What each wanted spec is; earlier ones of one field are preferred.
    fields: Vec<Field>,
    block_size_label: String,
    num_blocks_label: String,
    /// Keys of the attributes.
    attributes: Vec<Arc<str>>,
}

impl Engine {
    fn new(name: &str, specs: Vec<(Field, Spec)>, block_size_label: &str, num_blocks_label: &str) -> Self {
        let (fields, specs): (Vec<Field>, Vec<Spec>) = specs.into_iter().unzip();
        Self {
            name: name.into(),
            wanted: Wanted::new(specs),
            fields,
            block_size_label: block_size_label.to_owned(),
            num_blocks_label: num_blocks_label.to_owned(),
            attributes: Vec::new(),
        }
    }
}

/// The engine kinds of a configuration.
#[derive(Clone, Debug)]
pub struct EngineMappings {
    label_key: String,
    engines: Vec<Engine>,
    default: usize,
}

/// The label that names an endpoint's engine kind, unless `engineLabelKey` says another.
pub const LABEL: &str = "llm-d.ai/engine-type";
/// The label that upstream's first releases used.
pub const OLD_LABEL: &str = "inference.networking.k8s.io/engine-type";

impl EngineMappings {
    /// The engine label of an endpoint, if it has one.
    #[must_use]
    pub fn label<'a>(&self, labels: &'a Labels) -> Option<&'a str> {
        labels.get(&self.label_key).or_else(|| labels.get(OLD_LABEL)).filter(|v| !v.is_empty())
    }

    /// Engine kind of endpoints without a known label.
    #[must_use]
    pub fn default_engine(&self) -> &str {
        &self.engines[self.default].name
    }

    /// The engine kinds, in order.
    pub fn engine_names(&self) -> impl Iterator<Item = &str> {
        self.engines.iter().map(|e| &*e.name)
    }

    /// Whether a metric is named for `signal` where the engine kind is the default.
    #[must_use]
    pub fn default_gives(&self, signal: Signal) -> bool {
        self.engines[self.default].fields.contains(&Field::of(signal))
    }

    /// Reads a page as the engine kind `engine_label` prints it.
    #[must_use]
    pub fn read_as(&self, engine_label: Option<&str>, page: &[u8]) -> Extracted {
        let labelled = engine_label.and_then(|label| self.engines.iter().find(|e| &*e.name == label));
        let engine = labelled.unwrap_or(&self.engines[self.default]);
        let mut read = Accumulated::new(engine);
        scan(page, &engine.wanted, |sample| read.sample(&sample));
        let (scraped, errors, missing) = read.finish();
        Extracted { scraped, errors, missing, engine: Some(Arc::clone(&engine.name)), models: None }
    }
}

impl Extractor for EngineMappings {
    fn type_name(&self) -> &'static str {
        "core-metrics-extractor"
    }

    fn is_of_load(&self) -> bool {
        true
    }

    fn engines(&self) -> Option<&EngineMappings> {
        Some(self)
    }

    fn attributes(&self) -> Vec<Arc<str>> {
        self.engines.iter().flat_map(|e| e.attributes.iter().cloned()).collect()
    }

    fn extract(&self, endpoint: &EndpointMeta, page: &[u8]) -> Extracted {
        self.read_as(self.label(&endpoint.labels), page)
    }
}

const ENGINE_CONFIG: ParamKind = ParamKind::Object(&[
    Param::new("name", ParamKind::String, "Engine kind, as the label names it.").required(),
    Param::new("queuedRequestsSpec", ParamKind::String, "Metric of waiting requests.").default("\"\""),
    Param::new("runningRequestsSpec", ParamKind::String, "Metric of running requests.").default("\"\""),
    Param::new("kvUsageSpec", ParamKind::String, "Metric of KV cache usage, 0 to 1.").default("\"\""),
    Param::new("loraSpec", ParamKind::String, "Metric whose labels list adapters.").default("\"\""),
    Param::new("cacheInfoSpec", ParamKind::String, "Metric whose labels give block size and number of blocks.")
        .default("\"\""),
    Param::new("cacheBlockSizeLabelName", ParamKind::String, "Label of the block size.").default("\"block_size\""),
    Param::new("cacheNumBlocksLabelName", ParamKind::String, "Label of the number of blocks.")
        .default("\"num_gpu_blocks\""),
    Param::new("cacheBlockSizeSpec", ParamKind::String, "Metric of the block size.").default("\"\""),
    Param::new("cacheNumBlocksSpec", ParamKind::String, "Metric of the number of blocks.").default("\"\""),
    Param::new("customMetrics", ParamKind::List(&CUSTOM), "Further metrics, kept as endpoint attributes.")
        .default("[]"),
]);

const CUSTOM: ParamKind = ParamKind::Object(&[
    Param::new("attributeKey", ParamKind::String, "Name of the attribute.").required(),
    Param::new("metricSpec", ParamKind::String, "Metric it comes from.").required(),
]);

/// Its row.
pub const ROW: Row = Row {
    params: &[
        Param::new("engineLabelKey", ParamKind::String, "Label that names an endpoint's engine kind.")
            .default("\"llm-d.ai/engine-type\""),
        Param::new("defaultEngine", ParamKind::String, "Engine kind of endpoints without a known label.")
            .default("\"vllm\""),
        Param::new(
            "engineConfigs",
            ParamKind::List(&ENGINE_CONFIG),
            "Engine kinds; one of a built-in name replaces it.",
        )
        .default("[]"),
    ],
    makes: &[DataKind::EngineMetrics],
    build: Some(build),
    ..Row::new(
        "core-metrics-extractor",
        &[Kind::Extractor],
        Stability::Beta,
        "Reads load, KV usage, adapters and cache size from metrics pages.",
    )
};

fn build(b: &mut Build<'_>) -> Instance {
    let mut engines = engines::built_in();
    let configs: Vec<Params> = b.params.objects("engineConfigs").cloned().collect();
    for config in &configs {
        let name = config.str("name");
        if name.is_empty() || name == "default" {
            b.fault_in(config, "name", &format!("an engine needs a name other than `{name}`"));
        }
        let engine = user_engine(b, config);
        match engines.iter_mut().find(|e| &*e.name == name) {
            Some(built_in) => *built_in = engine,
            None => engines.push(engine),
        }
    }
    let wanted = b.params.str("defaultEngine").to_owned();
    let default = engines.iter().position(|e| *e.name == *wanted);
    if default.is_none() {
        let known = engines.iter().map(|e| format!("`{}`", e.name)).collect::<Vec<_>>().join(", ");
        b.fault("defaultEngine", &format!("engine `{wanted}` is not known; known are {known}"));
    }
    let mappings =
        EngineMappings { label_key: b.params.str("engineLabelKey").to_owned(), engines, default: default.unwrap_or(0) };
    Instance { extractor: Some(Arc::new(mappings)), ..Instance::default() }
}

/// An engine as the user wrote it. A name written by the user is never substituted.
fn user_engine(b: &mut Build<'_>, config: &Params) -> Engine {
    let mut specs = Vec::new();
    for (key, field) in [
        ("queuedRequestsSpec", Field::Waiting),
        ("runningRequestsSpec", Field::Running),
        ("kvUsageSpec", Field::KvUsage),
        ("loraSpec", Field::Lora),
        ("cacheInfoSpec", Field::CacheInfo),
        ("cacheBlockSizeSpec", Field::BlockSize),
        ("cacheNumBlocksSpec", Field::NumBlocks),
    ] {
        match Spec::parse(config.str(key)) {
            Ok(spec) => specs.extend(spec.map(|s| (field, s))),
            Err(error) => b.fault_in(config, key, &format!("`{key}` of engine `{}`: {error}", config.str("name"))),
        }
    }
    let mut keys: Vec<&str> = Vec::new();
    for custom in config.objects("customMetrics") {
        let (key, spec) = (custom.str("attributeKey"), custom.str("metricSpec"));
        if key.is_empty() || keys.contains(&key) {
            let message = format!("attribute key `{key}` of engine `{}` is empty or given twice", config.str("name"));
            b.fault_in(custom, "attributeKey", &message);
        }
        match Spec::parse(spec) {
            Ok(Some(spec)) => specs.push((Field::Custom(keys.len()), spec)),
            Ok(None) => b.fault_in(custom, "metricSpec", &format!("`metricSpec` of attribute `{key}` is empty")),
            Err(error) => b.fault_in(custom, "metricSpec", &format!("`metricSpec` of attribute `{key}`: {error}")),
        }
        keys.push(key);
    }
    let labels = (config.str("cacheBlockSizeLabelName"), config.str("cacheNumBlocksLabelName"));
    let mut engine = Engine::new(config.str("name"), specs, labels.0, labels.1);
    engine.attributes = keys.into_iter().map(|key| attribute_key(key, &b.name)).collect();
    engine
}

#[cfg(test)]
mod tests;
