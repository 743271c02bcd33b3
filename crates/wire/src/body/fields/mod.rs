//! What is done with each value of a body, by its place.
//!
//! [`Fields`] is the sink of the tokenizer. Events arrive in `events`, which finds the place of each value and hands it to
//! `containers`, `strings` or itself; what they mean for the prompt is in `order` (fields, and whether they come in order) and
//! `parts` (messages, assets, token ids).

mod containers;
mod events;
mod order;
mod parts;
mod strings;

use super::asset::{Asset, Whole};
use super::blocks::{Blocks, TOKEN};
use super::compact::Compact;
use super::place::Place;
use super::supplied::Supplied;
use super::{Api, BodyError, EstimateOptions, Feature, ParsedBody, ReadOptions};
use crate::json::Container;
use std::collections::VecDeque;
use std::mem::take;
use std::ops::Range;

/// System blocks that begin so tell a proxy about billing and differ from request to request.
const BILLING: &[u8] = b"x-anthropic-billing-header";

/// Longest key or block type that is told apart from all others.
const KEY: usize = 64;

/// A key or another short name, cut at [`KEY`] bytes (which none of the names looked for has).
#[derive(Debug)]
struct Short {
    bytes: [u8; KEY],
    len: usize,
}

impl Default for Short {
    fn default() -> Self {
        Self { bytes: [0; KEY], len: 0 }
    }
}

impl Short {
    fn push(&mut self, piece: &[u8]) {
        let take = piece.len().min(KEY - self.len);
        self.bytes[self.len..self.len + take].copy_from_slice(&piece[..take]);
        self.len += take;
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Where the pieces of the open string go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Nowhere,
    /// Into the prompt.
    Text,
    /// Into the prompt or the tool buffer, as JSON.
    Json,
    /// Model or salt.
    Name,
    Role,
    /// Type of a content block.
    Kind,
    Asset,
    Format,
    SystemText,
    MmHash,
    Key,
}

/// A field that is hashed.
#[derive(Clone, Debug, Default)]
struct Hashed {
    place: Option<Place>,
    span: Range<usize>,
    /// Bytes that it put into the prompt.
    bytes: u64,
}

/// State of the field that the API cannot do without.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Need {
    Missing,
    Good,
    Bad,
}

/// What the elements of an array of prompts are; the first one decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Unknown,
    Strings,
    Ids,
    Lists,
}

#[derive(Debug)]
pub(super) struct Fields {
    api: Api,
    estimate: EstimateOptions,
    /// Places of the open containers, outermost first.
    stack: Vec<(Place, Container)>,
    /// Place of the outermost value.
    root: Place,
    /// Place of the value of the key just read.
    member: Place,
    /// Place and start of the open string.
    string: (Place, usize),
    /// Whether the open string has any bytes.
    nonempty: bool,
    target: Target,
    key: Short,

    model: Option<(String, Range<usize>)>,
    salt: Option<String>,
    stream: bool,
    caps: [Option<u64>; 2],
    name: Vec<u8>,
    supplied: Supplied,
    not_an_object: Option<&'static str>,

    blocks: Blocks,
    hashed: [Hashed; 3],
    /// Hashed fields of an order below this can only come late.
    reached: usize,
    out_of_order: bool,
    /// The second pass is under way.
    second: bool,
    need: Need,
    bad_id: Option<(usize, String)>,
    shape: Shape,
    /// Elements of the needed field.
    items: usize,
    /// Whether the needed field has any text or token.
    filled: bool,

    compact: Compact,
    /// Compact JSON of the tools under way.
    tools: Option<Vec<u8>>,
    value_at: usize,

    content_seen: bool,
    role_known: bool,
    /// Roles that came after their message's content, by message.
    late_roles: VecDeque<(usize, Vec<u8>)>,
    kind: Short,
    kind_known: bool,
    asset: Asset,
    has_assets: bool,
    features: Vec<Feature>,
    /// Images of the tool result under way; they stand behind its text.
    held: Vec<Whole>,
    in_result: bool,
    result_parts: usize,
    /// First bytes of a system block, until it is known whether it counts; `None` once it is.
    system_head: Option<Vec<u8>>,
    system_counts: bool,
}

impl Fields {
    pub(super) fn new(api: Api, options: ReadOptions) -> Self {
        Self {
            api,
            estimate: options.estimate,
            stack: Vec::with_capacity(16),
            root: Place::Root,
            member: Place::Skip,
            string: (Place::Skip, 0),
            nonempty: false,
            target: Target::Nowhere,
            key: Short::default(),
            model: None,
            salt: None,
            stream: false,
            caps: [None; 2],
            name: Vec::new(),
            supplied: Supplied::default(),
            not_an_object: None,
            blocks: Blocks::new(options.block_tokens, options.max_blocks).keeping(options.keep),
            hashed: Default::default(),
            reached: 0,
            out_of_order: false,
            second: false,
            need: Need::Missing,
            bad_id: None,
            shape: Shape::Unknown,
            items: 0,
            filled: false,
            compact: Compact::default(),
            tools: None,
            value_at: 0,
            content_seen: false,
            role_known: false,
            late_roles: VecDeque::new(),
            kind: Short::default(),
            kind_known: false,
            asset: Asset::default(),
            has_assets: false,
            features: Vec::new(),
            held: Vec::new(),
            in_result: false,
            result_parts: 0,
            system_head: None,
            system_counts: true,
        }
    }

    // === what the reader asks ===

    /// Whether the body has what its API needs.
    pub(super) fn check(&mut self) -> Result<(), BodyError> {
        if let Some(found) = self.not_an_object {
            return Err(BodyError::NotAnObject { api: self.api, found });
        }
        match (self.bad_id.take(), &self.need) {
            (Some((index, value)), _) if matches!(self.api, Api::Generate | Api::SglangGenerate) => {
                Err(BodyError::TokenId { api: self.api, index, value })
            }
            (_, Need::Good) => Ok(()),
            _ => Err(BodyError::Required(self.api)),
        }
    }

    pub(super) fn is_out_of_order(&self) -> bool {
        self.out_of_order
    }

    /// Length of the prompt, where it is one prompt whose length is the same in every order.
    pub(super) fn bytes_if_order_does_not_matter(&self) -> Option<u64> {
        let tail = match self.api {
            Api::Chat | Api::Messages => 0,
            Api::Responses => 1,
            _ => return None,
        };
        let present = self.hashed.iter().filter(|h| h.place.is_some());
        (!self.has_assets).then(|| present.map(|h| h.bytes).sum::<u64>() + tail)
    }

    /// The hashed fields that are there, in the order they are hashed in.
    pub(super) fn present(&self) -> Vec<(Place, Range<usize>)> {
        self.hashed.iter().filter_map(|h| Some((h.place?, h.span.clone()))).collect()
    }

    pub(super) fn is_full(&self) -> bool {
        self.blocks.is_full()
    }

    /// Forgets what was hashed, for the second pass.
    pub(super) fn restart(&mut self) {
        self.second = true;
        self.blocks.restart();
        self.blocks.hashing = true;
        self.features.clear();
        self.has_assets = false;
    }

    /// The next event begins a value at `place`.
    pub(super) fn at_value(&mut self, place: Place) {
        self.stack.clear();
        self.root = place;
    }

    pub(super) fn end_prompts(&mut self) {
        if self.api == Api::Responses && self.blocks.bytes() > 0 {
            self.blocks.write(b"]");
        }
        self.blocks.finish();
    }

    pub(super) fn set_total(&mut self, bytes: u64) {
        let prompts = &mut self.blocks.prompts;
        if prompts.is_empty() && bytes > 0 {
            prompts.push(Default::default());
        }
        if let Some(prompt) = prompts.first_mut() {
            prompt.tokens = bytes.div_ceil(TOKEN);
        }
    }

    pub(super) fn parsed(&mut self) -> ParsedBody {
        let (model, model_span) = self.model.take().unzip();
        let supplied =
            matches!(self.api, Api::Generate | Api::SglangGenerate) || matches!(self.shape, Shape::Ids | Shape::Lists);
        ParsedBody {
            api: self.api,
            model,
            model_span,
            stream: self.stream,
            max_output_tokens: self.caps.into_iter().flatten().next(),
            cache_salt: self.salt.take(),
            prompts: take(&mut self.blocks.prompts),
            supplied,
            features: if self.api == Api::Generate {
                take(&mut self.supplied).features()
            } else {
                take(&mut self.features)
            },
            text: self.blocks.take_text().filter(|_| !supplied),
        }
    }
}
