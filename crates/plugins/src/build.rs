//! Making instances from declarations.

use crate::data_layer::core_metrics_extractor::EngineMappings;
use crate::data_layer::file_discovery::FileDiscovery;
use crate::data_layer::metrics_data_source::MetricsDataSource;
use crate::learned::{Learned, LearnedStates};
use crate::parsers::Claims;
use crate::producers::approx_prefix_cache_producer::ApproxPrefixCacheProducer;
use pointsman_config::{Faults, Params, Span};
use pointsman_scheduling::{
    ColumnId, DataKind, Filter, Hooks, InFlightTokens, Picker, PrefixMatch, Producer, ProfileHandler, ResponseHook,
    Scorer,
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
    /// Attaches facts.
    pub producer: Option<Arc<dyn Producer>>,
    /// Is told of choice and end.
    pub hooks: Option<Arc<dyn Hooks>>,
    /// Sees the head of responses.
    pub response: Option<Arc<dyn ResponseHook>>,
    /// Reads bodies.
    pub parser: Option<&'static Claims>,
    /// Fetches metrics.
    pub source: Option<Arc<MetricsDataSource>>,
    /// Reads metrics.
    pub extractor: Option<Arc<EngineMappings>>,
    /// Says which endpoints exist.
    pub discovery: Option<Arc<FileDiscovery>>,
    /// The prefix index behind a producer, for whoever shows or replays it.
    pub prefix: Option<Arc<ApproxPrefixCacheProducer>>,
    /// What pictures and videos are taken to cost, of a token producer.
    pub estimate: Option<EstimateOptions>,
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

/// Columns that producers fill, by kind and instance name.
#[derive(Debug, Default)]
pub struct ColumnTable {
    /// Prefix matches.
    pub prefix: HashMap<Arc<str>, ColumnId<PrefixMatch>>,
    /// Tokens to compute.
    pub uncached: HashMap<Arc<str>, ColumnId<u64>>,
    /// Tokens in flight.
    pub in_flight_tokens: HashMap<Arc<str>, ColumnId<InFlightTokens>>,
}

/// All that a factory may use.
pub struct Build<'a> {
    /// Instance name.
    pub name: Arc<str>,
    /// Configuration type.
    pub type_name: &'static str,
    /// Decoded parameters, defaults filled in.
    pub params: &'a Params,
    pub(crate) columns: &'a ColumnTable,
    /// Which instance answers each need of this one.
    pub(crate) bound: &'a HashMap<(DataKind, Option<&'static str>), Arc<str>>,
    pub(crate) states: &'a LearnedStates,
    pub(crate) faults: &'a mut Faults,
}

impl Build<'_> {
    /// Reports that a parameter cannot be used.
    pub fn fault(&mut self, param: &str, message: &str) {
        let span: Span = self.params.span(param);
        let path = self.params.path(param);
        self.faults.error(span, path, format!("plugin `{}`: {message}", self.name));
    }

    /// Reports that another value is in force than the one written.
    pub fn corrected(&mut self, param: &str, in_force: &str) {
        self.corrected_in(self.params, param, in_force);
    }

    /// The same of a parameter of `params`, an object somewhere among this instance's.
    pub fn corrected_in(&mut self, params: &Params, param: &str, in_force: &str) {
        let (span, path) = (params.span(param), params.path(param));
        let message = format!("plugin `{}`: `{param}` is out of range; {in_force} is in force", self.name);
        self.faults.warning(span, path, message);
    }

    /// The state of this instance.
    pub fn learned<T: Learned>(&self, new: impl FnOnce() -> T) -> Arc<T> {
        self.states.of(self.type_name, &self.name, new)
    }

    fn producer(&self, kind: DataKind, param: Option<&'static str>) -> Option<&Arc<str>> {
        self.bound.get(&(kind, param))
    }

    /// Column of prefix matches of the producer that `param` names.
    pub fn prefix_of(&self, param: &'static str) -> Option<ColumnId<PrefixMatch>> {
        self.columns.prefix.get(self.producer(DataKind::PrefixMatch, Some(param))?).copied()
    }

    /// Column of tokens to compute of the producer that `param` names.
    pub fn uncached_of(&self, param: &'static str) -> Option<ColumnId<u64>> {
        self.columns.uncached.get(self.producer(DataKind::UncachedTokens, Some(param))?).copied()
    }

    /// Column of tokens in flight of the producer that `param` names.
    pub fn in_flight_tokens_of(&self, param: &'static str) -> Option<ColumnId<InFlightTokens>> {
        self.columns.in_flight_tokens.get(self.producer(DataKind::InFlightLoad, Some(param))?).copied()
    }
}
