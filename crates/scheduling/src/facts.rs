//! Facts that producers attach to one request, as columns over its candidates.
//!
//! A column is found by its [`ColumnId`], which a producer and its consumers are given when the configuration is compiled: no
//! look-up by name happens while a request is scheduled.

use pointsman_core::BlockHash;
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

/// Number of a column of `T`.
#[derive(Debug)]
pub struct ColumnId<T>(u16, PhantomData<fn() -> T>);

impl<T> Clone for ColumnId<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for ColumnId<T> {}

/// One value per candidate, or nothing when the producer had nothing to say.
pub type Column<T> = Option<Vec<T>>;

/// Hands out column numbers while a configuration is compiled.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    prefix: u16,
    uncached: u16,
    tokens: u16,
}

/// Tokens in flight to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InFlightTokens(pub u64);

impl Columns {
    /// A column of tokens in flight.
    pub fn in_flight_tokens(&mut self) -> ColumnId<InFlightTokens> {
        self.tokens += 1;
        ColumnId(self.tokens - 1, PhantomData)
    }

    /// A column of prefix matches.
    pub fn prefix(&mut self) -> ColumnId<PrefixMatch> {
        self.prefix += 1;
        ColumnId(self.prefix - 1, PhantomData)
    }

    /// A column of prompt tokens to compute.
    pub fn uncached(&mut self) -> ColumnId<u64> {
        self.uncached += 1;
        ColumnId(self.uncached - 1, PhantomData)
    }

    /// Empty facts with room for every column handed out.
    #[must_use]
    pub fn facts(&self) -> Facts {
        Facts {
            prefix: (0..self.prefix).map(|_| None).collect(),
            uncached: (0..self.uncached).map(|_| None).collect(),
            in_flight_tokens: (0..self.tokens).map(|_| None).collect(),
            chains: Arc::default(),
            tokens: None,
        }
    }
}

/// The facts of one request.
#[derive(Debug, Default)]
pub struct Facts {
    prefix: Vec<Column<PrefixMatch>>,
    uncached: Vec<Column<u64>>,
    in_flight_tokens: Vec<Column<InFlightTokens>>,
    /// Block hashes of each prompt, once the chain is computed.
    pub chains: Arc<[Vec<BlockHash>]>,
    /// Prompt tokens, once a token producer has spoken.
    pub tokens: Option<u64>,
}

impl Facts {
    /// The prefix column `id`.
    #[must_use]
    pub fn prefix(&self, id: ColumnId<PrefixMatch>) -> Option<&[PrefixMatch]> {
        self.prefix.get(usize::from(id.0))?.as_deref()
    }

    /// The first prefix column anyone filled: what the record shows as predicted.
    #[must_use]
    pub fn any_prefix(&self) -> Option<&[PrefixMatch]> {
        self.prefix.iter().find_map(|c| c.as_deref())
    }

    /// Fills the prefix column `id`.
    pub fn set_prefix(&mut self, id: ColumnId<PrefixMatch>, values: Vec<PrefixMatch>) {
        if let Some(c) = self.prefix.get_mut(usize::from(id.0)) {
            *c = Some(values);
        }
    }

    /// The column of tokens in flight `id`.
    #[must_use]
    pub fn in_flight_tokens(&self, id: ColumnId<InFlightTokens>) -> Option<&[InFlightTokens]> {
        self.in_flight_tokens.get(usize::from(id.0))?.as_deref()
    }

    /// Fills the column of tokens in flight `id`.
    pub fn set_in_flight_tokens(&mut self, id: ColumnId<InFlightTokens>, values: Vec<InFlightTokens>) {
        if let Some(c) = self.in_flight_tokens.get_mut(usize::from(id.0)) {
            *c = Some(values);
        }
    }

    /// The column of tokens to compute `id`.
    #[must_use]
    pub fn uncached(&self, id: ColumnId<u64>) -> Option<&[u64]> {
        self.uncached.get(usize::from(id.0))?.as_deref()
    }

    /// The first column of tokens to compute that anyone filled.
    #[must_use]
    pub fn any_uncached(&self) -> Option<&[u64]> {
        self.uncached.iter().find_map(|c| c.as_deref())
    }

    /// Fills the column of tokens to compute `id`.
    pub fn set_uncached(&mut self, id: ColumnId<u64>, values: Vec<u64>) {
        if let Some(c) = self.uncached.get_mut(usize::from(id.0)) {
            *c = Some(values);
        }
    }
}
