//! What can be set on the transport.

use std::collections::BTreeSet;

/// How upstream's Endpoint Picker behaved, where ours is better by default and somebody may depend on the old way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compat {
    /// Every request and response header is set again, pseudo-headers included; of several of one name the last. By default only what changes is set.
    SetAllHeaders,
    /// Control headers of the client reach the engine. By default they are removed.
    KeepControlHeaders,
    /// A subset hint admits all ports of an address. By default it admits those it names.
    SubsetAnyPort,
    /// The subset hint does not count for requests without a body. By default it does.
    SubsetNotForBodyless,
}

impl Compat {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::SetAllHeaders, Self::KeepControlHeaders, Self::SubsetAnyPort, Self::SubsetNotForBodyless];
}

/// Options of the transport.
#[derive(Clone, Debug)]
pub struct ExtProcOptions {
    /// Whether dynamic metadata tells the score of every endpoint that the filters left.
    pub emit_endpoint_scores: bool,
    /// Whether responses carry the id of the decision.
    pub emit_decision_id: bool,
    /// Whether streams are counted and timed.
    pub stream_metrics: bool,
    /// Whether subset hints count.
    pub subset_filter: bool,
    /// Largest message, in bytes.
    pub max_message_bytes: usize,
    /// Largest request body, in bytes; 0: any. Beyond it 413.
    pub max_body_bytes: u64,
    /// Request bodies held at the same time over all requests, in bytes; beyond it 503.
    pub buffer_budget_bytes: u64,
    /// Old ways that are kept.
    pub compat: BTreeSet<Compat>,
}

impl Default for ExtProcOptions {
    fn default() -> Self {
        Self {
            emit_endpoint_scores: false,
            emit_decision_id: false,
            stream_metrics: false,
            subset_filter: true,
            max_message_bytes: pointsman_grpc::DEFAULT_MAX_MESSAGE,
            max_body_bytes: 0,
            buffer_budget_bytes: 4 << 30,
            compat: BTreeSet::new(),
        }
    }
}

impl ExtProcOptions {
    pub(crate) fn keeps(&self, old: Compat) -> bool {
        self.compat.contains(&old)
    }
}
