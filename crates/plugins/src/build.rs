//! Making instances from declarations.

use crate::data_layer::extractor::Extractor;
use crate::data_layer::file_discovery::FileDiscovery;
use crate::data_layer::source::Source;
use crate::data_layer::topology_extractor::TopologyKeys;
use crate::learned::{Learned, LearnedStates};
use crate::parsers::Claims;
use crate::producers::approx_prefix_cache_producer::ApproxPrefixCacheProducer;
use crate::producers::mm_embeddings_cache_producer::MmEmbeddingsCacheProducer;
use crate::producers::token_producer::render::Render;
use pointsman_config::{Code, Faults, Params, Span, did_you_mean, nearest};
use pointsman_scheduling::{
    Admitter, Batcher, ColumnId, DataKind, Decider, EncoderMatch, Fact, Filter, Hooks, InFlightTokens,
    LatencyPrediction, Picker, PrefixMatch, Producer, ProfileHandler, RequestHook, ResponseHook, Scorer, TextId,
    UncachedTokens, UsageHook,
};
use pointsman_wire::body::EstimateOptions;
use std::collections::HashMap;
use std::sync::Arc;

/// What an instance can do: one field per extension point.
#[derive(Clone, Default)]
pub struct Instance {
    /// Drops candidates.
    pub filter: Option<Arc<dyn Filter>>,
    /// Rates candidates.
    pub scorer: Option<Arc<dyn Scorer>>,
    /// Chooses among them.
    pub picker: Option<Arc<dyn Picker>>,
    /// Decides which profiles run.
    pub handler: Option<Arc<dyn ProfileHandler>>,
    /// Whether that handler takes one profile only.
    pub single_profile: bool,
    /// Numbers of the profiles that it can come to run; `None`: all.
    pub reach: Option<Vec<usize>>,
    /// Attaches facts.
    pub producer: Option<Arc<dyn Producer>>,
    /// Is told of choice and end.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Says whether a stage is worth its transfer.
    pub decider: Option<Arc<dyn Decider>>,
    /// Lets requests in, or not.
    pub admitter: Option<Arc<dyn Admitter>>,
    /// Sees requests before anything is decided.
    pub request: Option<Arc<dyn RequestHook>>,
    /// Sees the head of responses.
    pub response: Option<Arc<dyn ResponseHook>>,
    /// Makes numbers of what requests used.
    pub usage: Option<Arc<dyn UsageHook>>,
    /// Where endpoints stand, by their labels.
    pub topology: Option<Arc<TopologyKeys>>,
    /// Reads bodies.
    pub parser: Option<&'static Claims>,
    /// Where data of endpoints comes from.
    pub source: Option<Source>,
    /// Reads the pages of a source.
    pub extractor: Option<Arc<dyn Extractor>>,
    /// Says which endpoints exist.
    pub discovery: Option<Arc<FileDiscovery>>,
    /// The prefix index behind a producer, for whoever shows or replays it.
    pub prefix: Option<Arc<ApproxPrefixCacheProducer>>,
    /// The encoder caches behind a producer, for whoever counts their hits.
    pub encoder: Option<Arc<MmEmbeddingsCacheProducer>>,
    /// What pictures and videos are taken to cost, of a token producer.
    pub estimate: Option<EstimateOptions>,
    /// Who renders prompts, of a token producer.
    pub render: Option<Arc<Render>>,
    /// Holds requests back to place several together.
    pub batcher: Option<Arc<dyn Batcher>>,
    /// How it wants prompts cut into blocks, where no prefix index says.
    pub blocks: Option<Blocks>,
}

impl Instance {
    /// An instance that only filters.
    pub fn filter(filter: impl Filter + 'static) -> Self {
        Self { filter: Some(Arc::new(filter)), ..Self::default() }
    }

    /// An instance that only scores.
    pub fn scorer(scorer: impl Scorer + 'static) -> Self {
        Self { scorer: Some(Arc::new(scorer)), ..Self::default() }
    }

    /// An instance that only picks.
    pub fn picker(picker: impl Picker + 'static) -> Self {
        Self { picker: Some(Arc::new(picker)), ..Self::default() }
    }
}

/// How prompts are cut into blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Tokens in a block.
    pub tokens: u32,
    /// Blocks of a prompt that are hashed; `usize::MAX` means all.
    pub most: usize,
}

impl Default for Blocks {
    /// None are hashed.
    fn default() -> Self {
        Self { tokens: 64, most: 0 }
    }
}

/// Columns that producers fill, by instance name.
#[derive(Clone, Debug, Default)]
pub struct ColumnTable {
    pub(crate) prefix: HashMap<Arc<str>, ColumnId<PrefixMatch>>,
    pub(crate) uncached: HashMap<Arc<str>, ColumnId<UncachedTokens>>,
    pub(crate) in_flight: HashMap<Arc<str>, ColumnId<InFlightTokens>>,
    pub(crate) latency: HashMap<Arc<str>, ColumnId<LatencyPrediction>>,
    pub(crate) encoder: HashMap<Arc<str>, ColumnId<EncoderMatch>>,
    /// Texts about the request, by kind and instance name.
    pub(crate) texts: HashMap<(DataKind, Arc<str>), TextId>,
}

/// A fact with its columns in a [`ColumnTable`].
pub trait Tabled: Fact {
    #[doc(hidden)]
    fn table(columns: &ColumnTable) -> &HashMap<Arc<str>, ColumnId<Self>>;
}

macro_rules! tabled {
    ($($fact:ident in $field:ident),* $(,)?) => {
        $(impl Tabled for $fact {
            fn table(columns: &ColumnTable) -> &HashMap<Arc<str>, ColumnId<Self>> {
                &columns.$field
            }
        })*
    };
}

tabled! {
    PrefixMatch in prefix,
    UncachedTokens in uncached,
    InFlightTokens in in_flight,
    LatencyPrediction in latency,
    EncoderMatch in encoder,
}

/// Instances that others are made of, by name: they are built first.
#[derive(Default)]
pub struct Parts {
    /// Names and types of all instances, as declared.
    pub(crate) types: Vec<(Arc<str>, &'static str)>,
    pub(crate) deciders: HashMap<Arc<str>, Arc<dyn Decider>>,
    pub(crate) topologies: HashMap<Arc<str>, Arc<TopologyKeys>>,
    /// Whether anything reads the gauges of engines.
    pub(crate) gauges: bool,
    /// Keys of the attributes that extractors give.
    pub(crate) attributes: Vec<Arc<str>>,
}

/// Something to be done when a configuration takes force.
pub type Activation = Arc<dyn Fn() + Send + Sync>;

/// All that a factory may use.
pub struct Build<'a> {
    /// Instance name.
    pub name: Arc<str>,
    /// Configuration type.
    pub type_name: &'static str,
    /// Decoded parameters, defaults filled in.
    pub params: &'a Params,
    /// Names of the profiles, by number.
    pub profiles: &'a [Arc<str>],
    pub(crate) columns: &'a ColumnTable,
    pub(crate) parts: &'a Parts,
    /// Which instance answers each need of this one.
    pub(crate) bound: &'a HashMap<(DataKind, Option<&'static str>), Arc<str>>,
    pub(crate) states: &'a LearnedStates,
    pub(crate) activations: &'a mut Vec<Activation>,
    pub(crate) faults: &'a mut Faults,
}

impl Build<'_> {
    /// Reports that a parameter cannot be used.
    pub fn fault(&mut self, param: &str, message: &str) {
        self.fault_in(self.params, param, message);
    }

    /// The same of a parameter of `params`, an object somewhere among this instance's. Rules are about several parameters at once, so that nothing is said
    /// while one of the instance's has an error of its own: a default stands in its place.
    pub fn fault_in(&mut self, params: &Params, param: &str, message: &str) {
        if !self.params.is_sound() {
            return;
        }
        let span: Span = params.span(param);
        let path = params.path(param);
        self.faults.error(Code::ParameterRule, span, path, format!("plugin `{}`: {message}", self.name));
    }

    /// Reports that a parameter works, though likely not as meant.
    pub fn warning(&mut self, param: &str, message: &str) {
        self.warning_in(self.params, param, message);
    }

    /// The same of a parameter of `params`, an object somewhere among this instance's.
    pub fn warning_in(&mut self, params: &Params, param: &str, message: &str) {
        if !self.params.is_sound() {
            return;
        }
        let (span, path) = (params.span(param), params.path(param));
        self.faults.warning(Code::LikelyNotMeant, span, path, format!("plugin `{}`: {message}", self.name));
    }

    /// The same of the instance as a whole.
    pub fn warning_of_all(&mut self, message: &str) {
        if !self.params.is_sound() {
            return;
        }
        let path = self.params.path("");
        let message = format!("plugin `{}`: {message}", self.name);
        self.faults.warning(Code::LikelyNotMeant, self.params.whole_span(), path.trim_end_matches('.'), message);
    }

    /// Reports that another value is in force than the one written.
    pub fn corrected(&mut self, param: &str, in_force: &str) {
        self.corrected_in(self.params, param, in_force);
    }

    /// The same of a parameter of `params`, an object somewhere among this instance's.
    pub fn corrected_in(&mut self, params: &Params, param: &str, in_force: &str) {
        if !self.params.is_sound() {
            return;
        }
        let (span, path) = (params.span(param), params.path(param));
        let message = format!("plugin `{}`: `{param}` is out of range; {in_force} is in force", self.name);
        self.faults.warning(Code::Corrected, span, path, message);
    }

    /// Has `act` done when (and each time that) the configuration takes force. Compiling alone must change nothing that is shared: the document may yet be
    /// refused.
    pub fn on_activation(&mut self, act: impl Fn() + Send + Sync + 'static) {
        self.activations.push(Arc::new(act));
    }

    /// The state of this instance.
    pub fn learned<T: Learned>(&self, new: impl FnOnce() -> T) -> Arc<T> {
        self.states.of(self.type_name, &self.name, new)
    }

    /// The column that this instance fills.
    pub fn own<T: Tabled>(&self) -> Option<ColumnId<T>> {
        T::table(self.columns).get(&self.name).copied()
    }

    /// The text that this instance publishes.
    pub fn own_text(&self, kind: DataKind) -> Option<TextId> {
        self.columns.texts.get(&(kind, Arc::clone(&self.name))).copied()
    }

    /// The column of the producer that `param` names (or of the only one, or of the default one). Whoever asks for latency predictions that
    /// nobody makes is warned: what it does then is not what it is for.
    pub fn column<T: Tabled>(&mut self, param: &'static str) -> Option<ColumnId<T>> {
        let column = self.bound.get(&(T::KIND, Some(param))).and_then(|name| T::table(self.columns).get(name)).copied();
        // A producer that is named and not there is an error already.
        if column.is_none() && T::KIND == DataKind::LatencyPrediction && !self.names(param) {
            self.warning(param, "nothing predicts latency here, so it runs as if there were no prediction");
        }
        column
    }

    /// The text of that kind that `producer` publishes; an empty name means whoever publishes one, in the order of declaration.
    pub fn text(&self, kind: DataKind, producer: &str) -> Option<TextId> {
        let fits = |k: DataKind, name: &str| k == kind && (producer.is_empty() || name == producer);
        self.columns.texts.iter().filter(|((k, name), _)| fits(*k, name)).map(|(_, id)| *id).min()
    }

    /// Whether anything reads the gauges of engines.
    pub fn gauges_are_read(&self) -> bool {
        self.parts.gauges
    }

    /// Whether an extractor gives the attribute of that [key](pointsman_fleet::attribute_key).
    pub fn attribute_is_read(&self, key: &str) -> bool {
        self.parts.attributes.iter().any(|known| **known == *key)
    }

    /// Whether somebody wrote a name into `param`.
    fn names(&self, param: &str) -> bool {
        self.params.given(param) && !self.params.str(param).is_empty()
    }

    /// The number of a profile.
    pub fn profile(&self, name: &str) -> Option<usize> {
        self.profiles.iter().position(|p| **p == *name)
    }

    /// The decider of that name.
    pub fn decider(&self, name: &str) -> Option<Arc<dyn Decider>> {
        self.parts.deciders.get(name).cloned()
    }

    /// The decider that `param` of `params` names, an object among this instance's parameters. A name that no decider has is a fault; an empty one is none.
    pub fn decider_in(&mut self, params: &Params, param: &str) -> Option<Arc<dyn Decider>> {
        let name = params.str(param);
        if name.is_empty() || !params.is_sound() {
            return None;
        }
        if let Some(decider) = self.decider(name) {
            return Some(decider);
        }
        let types = &self.parts.types;
        let message = match types.iter().find(|(other, _)| **other == *name) {
            Some((_, type_name)) => format!("`{name}` is a `{type_name}`, and no decider"),
            None => format!("no decider is named `{name}`"),
        };
        let deciders = types.iter().map(|(name, _)| &**name).filter(|n| self.parts.deciders.contains_key(*n));
        let near = nearest(name, deciders).map(str::to_owned);
        let (span, path) = (params.span(param), params.path(param));
        self.faults.error(Code::UndefinedPlugin, span, path, format!("plugin `{}`: {message}", self.name)).label(
            match near {
                Some(near) => did_you_mean(name, &near),
                None => "declare it under `plugins`".to_owned(),
            },
        );
        None
    }

    /// Where endpoints stand, as the extractor that `param` names reads it. Whoever asks where no extractor reads it is warned.
    pub fn topology(&mut self, param: &'static str) -> Option<Arc<TopologyKeys>> {
        let bound = self.bound.get(&(DataKind::Topology, Some(param)));
        let topology = bound.and_then(|name| self.parts.topologies.get(name)).cloned();
        if topology.is_none() && !self.names(param) {
            self.warning(
                param,
                "nothing says where endpoints stand, so it has no effect: declare a `topology-extractor`",
            );
        }
        topology
    }

    /// A number that tells this instance from others, for its draws.
    pub fn salt(&self) -> u64 {
        pointsman_core::xxh64(self.name.as_bytes())
    }
}
