//! From a document to a running scheduler (plugin specification 1.3, 1.5, 3.4).
//!
//! Steps, each in its file: the declarations with defaults injected ([`declare`]), who reads whose data ([`bind`]), the instances
//! ([`assemble`]), which extractor reads which source ([`sources`]), what is legal and surely not meant ([`lint`]), and the effective document
//! for people ([`effective`]). Every order is the order of declaration.

mod assemble;
mod bind;
mod declare;
mod effective;
mod file;
mod lint;
mod sources;

pub use file::{Judged, JudgedDocument, judge};

use crate::build::{Activation, Blocks, ColumnTable, Instance};
use crate::data_layer::extractor::Extractor;
use crate::data_layer::file_discovery::FileDiscovery;
use crate::data_layer::source::DataSource;
use crate::learned::LearnedStates;
use crate::parsers::ParserTable;
use crate::producers::approx_prefix_cache_producer::ApproxPrefixCacheProducer;
use crate::producers::mm_embeddings_cache_producer::MmEmbeddingsCacheProducer;
use crate::producers::token_producer::render::Render;
use crate::table::Catalogue;
use pointsman_config::document::{decode, decode_tree};
use pointsman_config::registry::check_decoded;
use pointsman_config::{Decoded, Fault, Faults, Node, Severity};
use pointsman_scheduling::{
    Admitter, Batcher, Columns, Facts, Hooks, Named, Producer, RequestHook, ResponseHook, Scheduler, UsageHook,
};
use pointsman_wire::body::EstimateOptions;
use std::sync::Arc;

/// Which profile stands in for a missing document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultProfile {
    /// The Go picker's: queue 2, KV cache 2, prefix 3.
    Epp,
    /// That, and requests in flight 2: scraped gauges alone send every request within one interval to the same engine.
    Serve,
}

impl DefaultProfile {
    /// The document.
    #[must_use]
    pub fn document(self) -> &'static str {
        match self {
            Self::Epp => include_str!("default_epp.yaml"),
            Self::Serve => include_str!("default_serve.yaml"),
        }
    }
}

/// What a compilation needs beside the document.
#[derive(Clone, Debug)]
pub struct CompileOptions {
    /// Accept plugins of Alpha stability.
    pub allow_experimental: bool,
    /// What an empty document means.
    pub default: DefaultProfile,
    /// What plugins of an earlier configuration have learned.
    pub states: Arc<LearnedStates>,
}

/// A source of pages and what reads them.
#[derive(Clone, Debug)]
pub struct CompiledSource {
    /// How pages are fetched.
    pub source: Arc<DataSource>,
    /// What is read from them.
    pub extractors: Vec<Arc<dyn Extractor>>,
}

/// Name and type of a plugin instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPlugin {
    /// Instance name.
    pub name: Arc<str>,
    /// Configuration type.
    pub type_name: &'static str,
}

/// A configuration, ready to run.
#[derive(Clone)]
pub struct Compiled {
    /// Handler and profiles.
    pub scheduler: Scheduler,
    /// Producers, each after those whose data it reads.
    pub producers: Vec<Named<dyn Producer>>,
    /// Whoever is told of choice and end.
    pub hooks: Vec<Named<dyn Hooks>>,
    /// Whoever sees requests before anything is decided.
    pub request_hooks: Vec<Named<dyn RequestHook>>,
    /// Whoever sees the head of responses.
    pub response_hooks: Vec<Named<dyn ResponseHook>>,
    /// Whoever makes numbers of what requests used.
    pub usage_hooks: Vec<Named<dyn UsageHook>>,
    /// Whoever lets requests in.
    pub admitters: Vec<Named<dyn Admitter>>,
    /// Which paths are read as what.
    pub parsers: ParserTable,
    /// Room for the facts of one request.
    pub columns: Columns,
    /// Prefix producers; the first one sets the block size that bodies are hashed with.
    pub prefix: Vec<Arc<ApproxPrefixCacheProducer>>,
    /// Producers of encoder matches.
    pub encoders: Vec<Arc<MmEmbeddingsCacheProducer>>,
    /// What pictures and videos are taken to cost: of the first token producer, else the defaults.
    pub estimate: EstimateOptions,
    /// Who renders prompts, of the first token producer that says; otherwise tokens are estimated.
    pub render: Option<Arc<Render>>,
    /// Whoever holds requests back.
    pub batchers: Vec<Named<dyn Batcher>>,
    /// How prompts are cut into blocks where there is no prefix index.
    blocks: Option<Blocks>,
    /// Whether any plugin reads tokens: without, bodies are not hashed.
    pub reads_tokens: bool,
    /// Pages that endpoints are asked for.
    pub sources: Vec<CompiledSource>,
    /// Where endpoints come from, when the document says.
    pub discovery: Option<Arc<FileDiscovery>>,
    /// The document as it is in force, what was not written marked.
    pub effective: serde_json::Value,
    /// A hash of what [`Compiled::effective`] hides.
    pub secrets: u64,
    /// Where facts stand.
    pub(crate) table: ColumnTable,
    /// What is to be done when this takes force.
    pub activations: Vec<Activation>,
    /// Every instance, in order.
    pub plugins: Vec<NamedPlugin>,
    /// What the document says that is legal and surely not meant.
    pub warnings: Vec<Fault>,
}

impl Compiled {
    /// How prompts are cut into blocks now: as the first prefix index wants it, else as whoever compares prompts in another way.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        match self.prefix.first().filter(|_| self.reads_tokens) {
            Some(index) => Blocks { tokens: index.state.block_tokens(), most: index.max_blocks() },
            None => self.blocks.unwrap_or_default(),
        }
    }

    /// Puts into `facts`, which are this configuration's, what was `told` of the same request under the configuration `in_force`: texts of hooks, prefixes of
    /// whoever held it back (both where name and kind are the same), and the chains of its prompts, which depend on no configuration.
    pub fn hear(&self, in_force: &Self, told: &Facts, facts: &mut Facts) {
        facts.chains = Arc::clone(&told.chains);
        for (key, id) in &self.table.texts {
            if let Some(text) = in_force.table.texts.get(key).and_then(|id| told.text(*id)) {
                facts.set_text(*id, Arc::clone(text));
            }
        }
        for batcher in &self.batchers {
            let theirs = in_force.table.prefix.get(&batcher.name).and_then(|id| told.column(*id));
            if let (Some(id), Some(column)) = (self.table.prefix.get(&batcher.name), theirs) {
                facts.fill(*id, column.to_vec());
            }
        }
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled")
            .field("scheduler", &self.scheduler)
            .field("plugins", &self.plugins)
            .finish_non_exhaustive()
    }
}

/// Names that defaults bring into being whatever the document says.
const MADE_BY_DEFAULTS: &[&str] = &[
    "fcfs-ordering-policy",
    "global-strict-fairness-policy",
    "static-usage-limit-policy",
    "utilization-detector",
    "metrics-data-source",
    "core-metrics-extractor",
];

/// Compiles a document; empty bytes mean the default profile. `None` when there are errors among the faults.
pub fn compile(bytes: &[u8], options: &CompileOptions, faults: &mut Faults) -> Option<Compiled> {
    let decoded = decode(bytes, faults);
    compile_decoded(decoded, options, faults)
}

/// Compiles a document that is a part of another one.
pub fn compile_tree(root: &Node, options: &CompileOptions, faults: &mut Faults) -> Option<Compiled> {
    let decoded = decode_tree(root, faults);
    compile_decoded(decoded, options, faults)
}

fn compile_decoded(decoded: Decoded, options: &CompileOptions, faults: &mut Faults) -> Option<Compiled> {
    let built_in = matches!(decoded, Decoded::Absent);
    let decoded = if built_in { decode(options.default.document().as_bytes(), faults) } else { decoded };
    let allow_experimental = options.allow_experimental || built_in;
    let checked = check_decoded(decoded, &Catalogue, MADE_BY_DEFAULTS, allow_experimental, faults)?;
    let mut declared = declare::declare(checked, built_in, faults)?;
    let bound = bind::bind(&mut declared, options.allow_experimental, faults);
    let columns = bind::columns(&declared);
    let mut activations = Vec::new();
    let instances: Vec<Instance> =
        assemble::instances(&declared, &bound, &columns.1, &options.states, &mut activations, faults);
    if faults.errors() == 0 {
        lint::lint(&declared, &bound, &instances, faults);
    }
    let compiled = assemble::assemble(&declared, &bound, instances, columns, activations, faults);
    if faults.errors() > 0 {
        return None;
    }
    let warnings = faults.sorted().into_iter().filter(|f| f.severity == Severity::Warning).cloned().collect();
    compiled.map(|compiled| Compiled { warnings, ..compiled })
}
