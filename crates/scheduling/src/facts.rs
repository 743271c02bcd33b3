//! Facts that producers attach to one request, as columns over its candidates.
//!
//! A column is found by its [`ColumnId`], which a producer and its consumers are given when the configuration is compiled: no
//! look-up by name happens while a request is scheduled.

use crate::DataKind;
use pointsman_core::BlockHash;
use pointsman_fleet::Endpoint;
use std::marker::PhantomData;
use std::sync::Arc;

/// How much of the prompts one candidate is believed to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PrefixMatch {
    /// Leading blocks held, summed over prompts.
    pub matched: u32,
    /// Blocks of all prompts.
    pub total: u32,
    /// Tokens in a block.
    pub block_tokens: u32,
}

impl PrefixMatch {
    /// `matched / total`; 0 without blocks.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        if self.total == 0 { 0.0 } else { f64::from(self.matched) / f64::from(self.total) }
    }

    /// Tokens believed to be cached, at most `prompt_tokens`.
    #[must_use]
    pub fn tokens(&self, prompt_tokens: u64) -> u64 {
        (u64::from(self.matched) * u64::from(self.block_tokens)).min(prompt_tokens)
    }
}

/// Prompt tokens that a candidate would have to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UncachedTokens(pub u64);

/// Tokens in flight to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlightTokens(pub u64);

/// What a latency predictor expects of a candidate. Times in milliseconds; headroom is what is left of the objective, negative when it is missed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyPrediction {
    /// Time to first token.
    pub ttft_ms: f64,
    /// Time per output token.
    pub tpot_ms: f64,
    /// Objective of the time to first token less the prediction.
    pub ttft_headroom_ms: f64,
    /// Objective of the time per output token less the prediction.
    pub tpot_headroom_ms: f64,
    /// Whether the time to first token meets its objective.
    pub ttft_valid: bool,
    /// Whether the time per output token meets its objective.
    pub tpot_valid: bool,
    /// Requests on their way there through this router.
    pub dispatched: u64,
}

impl LatencyPrediction {
    /// What stands in a column for a candidate that nothing was predicted of.
    pub const UNKNOWN: Self = Self {
        ttft_ms: f64::NAN,
        tpot_ms: f64::NAN,
        ttft_headroom_ms: f64::NAN,
        tpot_headroom_ms: f64::NAN,
        ttft_valid: false,
        tpot_valid: false,
        dispatched: 0,
    };

    /// Whether anything was predicted.
    #[must_use]
    pub fn is_known(&self) -> bool {
        !self.ttft_headroom_ms.is_nan() && !self.tpot_headroom_ms.is_nan()
    }

    /// Whether both objectives are met.
    #[must_use]
    pub fn meets_both(&self) -> bool {
        self.ttft_headroom_ms >= 0.0 && self.tpot_headroom_ms >= 0.0
    }
}

/// How many of a request's multimodal items a candidate's encoder cache is believed to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncoderMatch {
    /// Size of the items held.
    pub matched: u64,
    /// Size of all items.
    pub total: u64,
}

/// An endpoint that others may take cached KV blocks of the prompt from.
#[derive(Clone, Debug)]
pub struct KvSource {
    /// The endpoint.
    pub endpoint: Arc<Endpoint>,
    /// Tokens of the prompt that it is believed to hold.
    pub tokens: u64,
}

/// Number of a column of `T`.
#[derive(Debug, PartialEq, Eq)]
pub struct ColumnId<T>(u16, PhantomData<fn() -> T>);

impl<T> Clone for ColumnId<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for ColumnId<T> {}

/// Number of a text about the request as a whole, in the order in which they were handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TextId(u16);

/// One value per candidate, or nothing when the producer had nothing to say.
pub type Column<T> = Option<Vec<T>>;

/// A kind of value that stands in columns.
pub trait Fact: Clone + Send + Sync + Sized + 'static {
    /// Under which key consumers ask for it.
    const KIND: DataKind;
    #[doc(hidden)]
    fn of(facts: &Facts) -> &[Column<Self>];
    #[doc(hidden)]
    fn of_mut(facts: &mut Facts) -> &mut [Column<Self>];
    #[doc(hidden)]
    fn handed_out(columns: &mut Columns) -> &mut u16;
}

macro_rules! facts {
    ($($field:ident: $fact:ident = $kind:ident),* $(,)?) => {
        /// Hands out column numbers while a configuration is compiled.
        #[derive(Clone, Debug, Default)]
        pub struct Columns {
            $($field: u16,)*
            texts: u16,
        }

        impl Columns {
            /// Empty facts with room for every column handed out.
            #[must_use]
            pub fn facts(&self) -> Facts {
                Facts {
                    $($field: (0..self.$field).map(|_| None).collect(),)*
                    texts: vec![None; usize::from(self.texts)],
                    chains: Arc::default(),
                    tokens: None,
                    kv_source: None,
                }
            }
        }

        /// The facts of one request.
        #[derive(Debug, Default)]
        pub struct Facts {
            $($field: Vec<Column<$fact>>,)*
            texts: Vec<Option<Arc<str>>>,
            /// Block hashes of each prompt, once the chain is computed.
            pub chains: Arc<[Vec<BlockHash>]>,
            /// Prompt tokens, once a token producer has spoken.
            pub tokens: Option<u64>,
            /// Where cached KV blocks may be taken from, once a producer has drawn an endpoint.
            pub kv_source: Option<KvSource>,
        }

        $(impl Fact for $fact {
            const KIND: DataKind = DataKind::$kind;
            fn of(facts: &Facts) -> &[Column<Self>] {
                &facts.$field
            }
            fn of_mut(facts: &mut Facts) -> &mut [Column<Self>] {
                &mut facts.$field
            }
            fn handed_out(columns: &mut Columns) -> &mut u16 {
                &mut columns.$field
            }
        })*
    };
}

facts! {
    prefix: PrefixMatch = PrefixMatch,
    uncached: UncachedTokens = UncachedTokens,
    in_flight: InFlightTokens = InFlightLoad,
    latency: LatencyPrediction = LatencyPrediction,
    encoder: EncoderMatch = EncoderMatch,
}

impl Columns {
    /// A new column.
    pub fn column<T: Fact>(&mut self) -> ColumnId<T> {
        let next = T::handed_out(self);
        *next += 1;
        ColumnId(*next - 1, PhantomData)
    }

    /// A new text.
    pub fn text(&mut self) -> TextId {
        self.texts += 1;
        TextId(self.texts - 1)
    }
}

impl Facts {
    /// The column `id`, by candidate.
    #[must_use]
    pub fn column<T: Fact>(&self, id: ColumnId<T>) -> Option<&[T]> {
        T::of(self).get(usize::from(id.0))?.as_deref()
    }

    /// The first column of its kind that anyone filled.
    #[must_use]
    pub fn any<T: Fact>(&self) -> Option<&[T]> {
        T::of(self).iter().find_map(|c| c.as_deref())
    }

    /// Fills the column `id` with one value per candidate.
    pub fn fill<T: Fact>(&mut self, id: ColumnId<T>, values: Vec<T>) {
        if let Some(c) = T::of_mut(self).get_mut(usize::from(id.0)) {
            *c = Some(values);
        }
    }

    /// The text `id`.
    #[must_use]
    pub fn text(&self, id: TextId) -> Option<&Arc<str>> {
        self.texts.get(usize::from(id.0))?.as_ref()
    }

    /// Sets the text `id`.
    pub fn set_text(&mut self, id: TextId, text: impl Into<Arc<str>>) {
        if let Some(t) = self.texts.get_mut(usize::from(id.0)) {
            *t = Some(text.into());
        }
    }
}
