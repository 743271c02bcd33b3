//! Keys of the data that producers publish and consumers read (plugin specification 3.3).

use std::fmt;
use std::sync::Arc;

/// What kind of fact it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DataKind {
    /// Token blocks of the prompts.
    TokenizedPrompt,
    /// Leading blocks each candidate is believed to hold.
    PrefixMatch,
    /// Requests and tokens in flight per endpoint.
    InFlightLoad,
    /// Prompt tokens each candidate would have to compute.
    UncachedTokens,
    /// Gauges of the engine: waiting, running, KV usage, adapters.
    EngineMetrics,
    /// What a latency predictor expects of each candidate.
    LatencyPrediction,
    /// Multimodal items that each candidate's encoder cache is believed to hold.
    EncoderMatch,
    /// Which session the request belongs to.
    SessionId,
    /// Which agent sent it.
    AgentIdentity,
    /// Where each endpoint stands: host, rack, zone, region.
    Topology,
}

impl DataKind {
    /// Upstream's spelling.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TokenizedPrompt => "TokenizedPrompt",
            Self::PrefixMatch => "PrefixCacheMatchInfoDataKey",
            Self::InFlightLoad => "InFlightLoadDataKey",
            Self::UncachedTokens => "UncachedRequestTokensDataKey",
            Self::EngineMetrics => "EngineMetrics",
            Self::LatencyPrediction => "LatencyPredictionInfoDataKey",
            Self::EncoderMatch => "MultiModalEncoderCacheMatchInfoKey",
            Self::SessionId => "SessionIDDataKey",
            Self::AgentIdentity => "agent-identity",
            Self::Topology => "Topology",
        }
    }
}

/// A kind and the instance name of the plugin that publishes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataKey {
    /// Kind.
    pub kind: DataKind,
    /// Instance name of the producer.
    pub producer: Arc<str>,
}

impl DataKey {
    /// Key of `kind` published by the instance `producer`.
    pub fn new(kind: DataKind, producer: impl Into<Arc<str>>) -> Self {
        Self { kind, producer: producer.into() }
    }
}

impl fmt::Display for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str(), self.producer)
    }
}
