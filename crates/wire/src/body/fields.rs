//! What is done with each value of a body, by its place.

use super::asset::{Asset, Whole};
use super::blocks::{Blocks, TOKEN};
use super::compact::{Compact, escape, sort_keys};
use super::place::{JsonField, Medium, Place, carries, order};
use super::supplied::Supplied;
use super::{Api, BodyError, EstimateOptions, Feature, MAX_FEATURES, MAX_NAME, MAX_TOOLS, ParsedBody, ReadOptions};
use crate::json::{Container, Scalar, Sink};
use std::collections::VecDeque;
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
            blocks: Blocks::new(options.block_tokens, options.max_blocks),
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
            return Err(BodyError::NotAnObject(found));
        }
        match (self.bad_id.take(), &self.need) {
            (Some((index, value)), _) if self.api == Api::Generate => Err(BodyError::TokenId { index, value }),
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

    pub(super) fn parsed(self) -> ParsedBody {
        let (model, model_span) = self.model.unzip();
        ParsedBody {
            api: self.api,
            model,
            model_span,
            stream: self.stream,
            max_output_tokens: self.caps.into_iter().flatten().next(),
            cache_salt: self.salt,
            prompts: self.blocks.prompts,
            features: if self.api == Api::Generate { self.supplied.features() } else { self.features },
        }
    }

    // === hashed fields ===

    /// A hashed field begins that is there. The needed ones start afresh.
    fn begin_field(&mut self, place: Place, at: usize) {
        if self.second {
            return;
        }
        let Some(order) = order(self.api, place) else { return };
        if order < self.reached {
            self.late();
        }
        self.reached = self.reached.max(order + 1);
        // `bytes` is the start until the field ends.
        self.hashed[order] = Hashed { place: Some(place), span: at..at, bytes: self.blocks.bytes() };
    }

    fn end_field(&mut self, place: Place, end: usize) {
        if self.second {
            return;
        }
        if let Some(order) = order(self.api, place) {
            let field = &mut self.hashed[order];
            field.span.end = end;
            field.bytes = self.blocks.bytes().saturating_sub(field.bytes);
        }
    }

    /// A hashed field is null or empty. What an earlier one of the same name left must go.
    fn absent_field(&mut self, place: Place) {
        if let Some(order) = order(self.api, place)
            && self.hashed[order].place.take().is_some()
        {
            self.late();
        }
    }

    fn late(&mut self) {
        self.out_of_order = true;
        self.blocks.hashing = false;
    }

    /// The needed field begins: what an earlier one of the same name said is void.
    fn begin_need(&mut self) {
        self.need = Need::Missing;
        self.bad_id = None;
        self.shape = Shape::Unknown;
        self.items = 0;
        self.filled = false;
        self.late_roles_void();
    }

    fn late_roles_void(&mut self) {
        if !self.second {
            self.late_roles.clear();
        }
    }

    fn bad(&mut self) {
        self.need = Need::Bad;
    }

    fn end_need(&mut self, good: bool) {
        if self.need != Need::Bad {
            self.need = if good { Need::Good } else { Need::Missing };
        }
    }

    fn begin_json(&mut self, field: JsonField, at: usize) {
        self.begin_field(Place::Json(field), at);
        self.compact = Compact::default();
        match field {
            JsonField::Instructions => self.wrap(b"{\"instructions\":"),
            JsonField::Input => self.wrap(b"{\"input\":"),
            JsonField::Items => {}
        }
    }

    fn end_json(&mut self, field: JsonField, end: usize) {
        if field != JsonField::Items {
            self.blocks.write(b"}");
        }
        self.end_field(Place::Json(field), end);
    }

    /// An element of the array that a responses request is hashed as.
    fn wrap(&mut self, name: &[u8]) {
        self.blocks.write(if self.blocks.bytes() == 0 { b"[" } else { b"," });
        self.blocks.write(name);
    }

    fn begin_tools(&mut self, at: usize) {
        self.value_at = at;
        self.compact = Compact::default();
        self.tools = Some(Vec::new());
    }

    fn end_tools(&mut self, end: usize) {
        if let Some(tools) = self.tools.take() {
            if tools == b"[]" {
                return self.absent_field(Place::Tools);
            }
            self.open_tools();
            self.blocks.write(&sort_keys(&tools));
        }
        if self.api == Api::Responses {
            self.blocks.write(b"}");
        }
        self.end_field(Place::Tools, end);
    }

    fn open_tools(&mut self) {
        self.begin_field(Place::Tools, self.value_at);
        if self.api == Api::Responses {
            self.wrap(b"{\"tools\":");
        }
    }

    /// Writes JSON into the prompt, or into the tool buffer while there is one.
    fn json(&mut self, write: impl FnOnce(&mut Compact, &mut dyn FnMut(&[u8]))) {
        let Self { compact, tools, blocks, .. } = self;
        match tools {
            Some(tools) => write(compact, &mut |b| tools.extend_from_slice(b)),
            None => write(compact, &mut |b| blocks.write(b)),
        }
        if self.tools.as_ref().is_some_and(|t| t.len() > MAX_TOOLS) {
            let tools = self.tools.take().unwrap_or_default();
            self.open_tools();
            self.blocks.write(&tools);
        }
    }

    // === parts of prompts ===

    fn token(&mut self, id: u32) {
        self.blocks.write(&id.to_le_bytes());
        self.filled = true;
    }

    /// Settles what the elements of the array are; false when this one differs from the first.
    fn shaped(&mut self, shape: Shape) -> bool {
        if self.shape == Shape::Unknown {
            self.shape = shape;
        }
        if self.shape != shape {
            self.bad();
        }
        self.shape == shape
    }

    fn begin_message(&mut self) {
        self.content_seen = false;
        self.role_known = false;
        if self.second && self.late_roles.front().is_some_and(|(message, _)| *message == self.items) {
            if let Some((_, role)) = self.late_roles.pop_front() {
                self.blocks.write(&role);
            }
            self.role_known = true;
        }
        self.items += 1;
    }

    fn begin_role(&mut self) -> Target {
        if self.second {
            return if self.role_known { Target::Nowhere } else { Target::Text };
        }
        if self.content_seen {
            self.late();
            let message = self.items.saturating_sub(1);
            match self.late_roles.back_mut() {
                // A second role in one message: the last one counts.
                Some((last, role)) if *last == message => role.clear(),
                _ => self.late_roles.push_back((message, Vec::new())),
            }
            return Target::Role;
        }
        Target::Text
    }

    fn end_asset(&mut self) {
        let Some(whole) = self.asset.end(&self.estimate) else { return };
        self.has_assets = true;
        if self.in_result && self.held.len() < MAX_FEATURES {
            self.held.push(whole);
        } else {
            self.place_asset(whole);
        }
    }

    fn place_asset(&mut self, whole: Whole) {
        self.blocks.pad();
        let offset = self.blocks.bytes() / TOKEN;
        self.blocks.repeat(whole.hash as u32, whole.tokens);
        if self.features.len() < MAX_FEATURES {
            self.features.push(Feature {
                modality: whole.medium.name().into(),
                hash: format!("{:x}", whole.hash),
                offset,
                length: whole.tokens,
            });
        }
    }

    fn system_piece(&mut self, piece: &[u8]) {
        let Some(head) = &mut self.system_head else {
            if self.system_counts {
                self.blocks.write(piece);
            }
            return;
        };
        let (start, rest) = piece.split_at(piece.len().min(BILLING.len() - head.len()));
        head.extend_from_slice(start);
        if head.len() == BILLING.len() {
            self.settle_system();
            if self.system_counts {
                self.blocks.write(rest);
            }
        }
    }

    fn settle_system(&mut self) {
        if let Some(head) = self.system_head.take() {
            self.system_counts = head != BILLING;
            if self.system_counts {
                self.blocks.write(&head);
            }
        }
    }

    // === values ===

    /// The place of the value that begins now.
    fn here(&self) -> Place {
        match self.stack.last() {
            None => self.root,
            Some((_, Container::Object)) => self.member,
            Some((place, Container::Array)) => place.element(),
        }
    }

    /// A container begins at `place`. Returns the place it has for what is inside.
    fn enter(&mut self, place: Place, container: Container, at: usize) -> Place {
        use Container::{Array, Object};
        match (place, container) {
            (Place::Root, Array) => {
                self.not_an_object = Some("an array");
                return Place::Skip;
            }
            (Place::SamplingParams, Object) => self.caps[0] = None,
            (Place::Tools, _) => {
                self.begin_tools(at);
                self.json(|c, out| c.open(container, out));
            }
            (Place::Json(field), _) => {
                self.begin_need_of(field);
                self.begin_json(field, at);
                if field == JsonField::Items && container == Object {
                    self.bad();
                }
                self.json(|c, out| c.open(container, out));
            }
            (Place::JsonPart, _) => {
                self.count_item();
                self.json(|c, out| c.open(container, out));
            }
            (Place::ToolUseInput, _) => {
                self.compact = Compact::default();
                self.json(|c, out| c.open(container, out));
            }
            (Place::Prompt | Place::EmbedInput | Place::TokenIds | Place::Messages, Array) => {
                self.begin_need();
                self.begin_field(place, at);
            }
            (Place::Prompt | Place::EmbedInput | Place::TokenIds | Place::Messages, Object) => {
                self.begin_need();
                self.begin_field(place, at);
                self.bad();
                return Place::Skip;
            }
            (Place::ImagePrompt, _) => {
                self.bad();
                return Place::Skip;
            }
            (Place::PromptItem | Place::EmbedItem, Array) => {
                self.items += 1;
                if !self.shaped(Shape::Lists) {
                    return Place::Skip;
                }
            }
            (Place::PromptItem | Place::EmbedItem | Place::TokenId, _) => {
                self.bad_id_at(format!("{container:?}"));
                self.bad();
                return Place::Skip;
            }
            (Place::System, Array) => self.begin_field(place, at),
            (Place::System, Object) => {
                self.absent_field(place);
                return Place::Skip;
            }
            (Place::Message, Object) => self.begin_message(),
            (Place::Content, Array) => self.content_seen = true,
            (Place::Block, Object) => self.kind_known = false,
            (Place::Message | Place::Block, Array) | (Place::Content, Object) | (Place::Role, _) => {
                self.bad();
                return Place::Skip;
            }
            (Place::ToolResult, Array) => {
                self.in_result = true;
                self.result_parts = 0;
                self.held.clear();
            }
            (Place::Audio, Object) => self.asset.begin(Medium::Audio, false),
            (Place::Features, Object) => self.supplied = Supplied::default(),
            (Place::MmHashList | Place::MmPlaceholderList, Array) => self.supplied.modality(self.key.get()),
            (Place::MmPlaceholder, Object) => self.supplied.begin_placeholder(),
            (Place::SystemBlock | Place::Media(_) | Place::Source | Place::ResultBlock, Object)
            | (Place::MmHashes | Place::MmPlaceholders, Object)
            | (Place::Root, Object) => {}
            _ => {
                self.clear(place);
                return Place::Skip;
            }
        }
        place
    }

    /// The container at `place` ended.
    fn leave(&mut self, place: Place, container: Container, end: usize) {
        match place {
            Place::Tools => {
                self.json(|c, out| c.close(container, out));
                self.end_tools(end);
            }
            Place::Json(field) => {
                self.json(|c, out| c.close(container, out));
                let good = field != JsonField::Items || self.items > 0;
                if field != JsonField::Instructions {
                    self.end_need(good);
                }
                self.end_json(field, end);
            }
            Place::JsonPart | Place::ToolUseInput => self.json(|c, out| c.close(container, out)),
            Place::Prompt => {
                self.end_need(self.items > 0 && self.filled);
                self.blocks.end_prompt();
                self.end_field(place, end);
            }
            Place::EmbedInput => {
                if self.shape == Shape::Strings {
                    self.json(|c, out| c.close(Container::Array, out));
                }
                self.end_need(self.items > 0 && self.filled);
                self.blocks.end_prompt();
                self.end_field(place, end);
            }
            Place::PromptItem | Place::EmbedItem => self.blocks.end_prompt(),
            Place::TokenIds | Place::Messages => {
                self.end_need(self.items > 0);
                self.end_field(place, end);
            }
            Place::System => self.end_field(place, end),
            Place::Audio => self.end_asset(),
            Place::ToolResult => {
                self.in_result = false;
                for whole in std::mem::take(&mut self.held) {
                    self.place_asset(whole);
                }
            }
            Place::MmPlaceholder => self.supplied.end_placeholder(),
            _ => {}
        }
    }

    /// A string begins at `place`. Returns where its pieces go.
    fn begin_string(&mut self, place: Place, at: usize) -> Target {
        match place {
            Place::Root => self.not_an_object = Some("a string"),
            Place::Model | Place::Salt => {
                self.name.clear();
                return Target::Name;
            }
            Place::Tools => {
                self.begin_tools(at);
                return self.begin_json_string();
            }
            Place::Json(field) => {
                self.begin_need_of(field);
                self.begin_json(field, at);
                if field == JsonField::Items {
                    self.bad();
                }
                return self.begin_json_string();
            }
            Place::JsonPart => {
                self.count_item();
                return self.begin_json_string();
            }
            Place::ToolUseInput => {
                self.compact = Compact::default();
                return self.begin_json_string();
            }
            Place::Prompt => {
                self.begin_need();
                self.begin_field(place, at);
                return Target::Text;
            }
            Place::EmbedInput => {
                self.begin_need();
                self.begin_field(place, at);
                self.compact = Compact::default();
                return self.begin_json_string();
            }
            Place::PromptItem => {
                self.items += 1;
                if self.shaped(Shape::Strings) {
                    return Target::Text;
                }
            }
            Place::EmbedItem => {
                let first = self.items == 0;
                self.items += 1;
                if self.shaped(Shape::Strings) {
                    if first {
                        self.compact = Compact::default();
                        self.json(|c, out| c.open(Container::Array, out));
                    }
                    return self.begin_json_string();
                }
            }
            Place::TokenIds | Place::Messages => {
                self.begin_need();
                self.begin_field(place, at);
                self.bad();
            }
            Place::TokenId => {
                self.bad_id_at("a string".into());
                self.bad();
            }
            Place::ImagePrompt => self.begin_need(),
            Place::Message | Place::Block => self.bad(),
            Place::System => {
                self.begin_field(place, at);
                return Target::Text;
            }
            Place::SystemText => {
                self.system_head = Some(Vec::with_capacity(BILLING.len()));
                return Target::SystemText;
            }
            Place::Role => return self.begin_role(),
            Place::Content => {
                self.content_seen = true;
                return Target::Text;
            }
            Place::BlockType => {
                self.kind.len = 0;
                return Target::Kind;
            }
            Place::Text | Place::ToolUsePart | Place::ToolResult => return Target::Text,
            Place::ResultText => {
                if self.result_parts > 0 {
                    self.blocks.write(b"\n");
                }
                self.result_parts += 1;
                return Target::Text;
            }
            Place::Media(medium) | Place::MediaUrl(medium) => {
                self.asset.begin(medium, false);
                return Target::Asset;
            }
            Place::AudioData => return Target::Asset,
            Place::AudioFormat => return Target::Format,
            Place::SourceData => {
                self.asset.begin(Medium::Image, self.key.get() == b"data");
                return Target::Asset;
            }
            Place::MmHash => {
                self.supplied.begin_hash();
                return Target::MmHash;
            }
            _ => self.clear(place),
        }
        Target::Nowhere
    }

    fn begin_json_string(&mut self) -> Target {
        self.json(|c, out| c.string_start(out));
        Target::Json
    }

    fn end_json_string(&mut self, key: bool) {
        self.json(|c, out| c.string_end(key, out));
    }

    fn end_value_string(&mut self, place: Place, span: Range<usize>) {
        if self.target == Target::Json {
            self.end_json_string(false);
        }
        match place {
            Place::Model => {
                let name = std::mem::take(&mut self.name);
                self.model = (name.len() <= MAX_NAME).then(|| (String::from_utf8_lossy(&name).into_owned(), span));
            }
            Place::Salt => {
                self.name.truncate(MAX_NAME);
                self.salt = Some(String::from_utf8_lossy(&self.name).into_owned());
            }
            Place::Tools => self.end_tools(span.end),
            Place::Json(field) => {
                if field != JsonField::Instructions {
                    self.end_need(true);
                }
                self.end_json(field, span.end);
            }
            Place::Prompt | Place::EmbedInput => {
                self.end_need(self.nonempty);
                self.blocks.end_prompt();
                self.end_field(place, span.end);
            }
            Place::PromptItem => {
                self.filled |= self.nonempty;
                self.blocks.end_prompt();
            }
            Place::EmbedItem => self.filled |= self.nonempty,
            Place::ImagePrompt => self.end_need(self.nonempty),
            Place::System => self.end_field(place, span.end),
            Place::SystemText => self.settle_system(),
            Place::BlockType => self.kind_known = true,
            Place::Media(_) | Place::MediaUrl(_) | Place::SourceData => self.end_asset(),
            Place::MmHash => self.supplied.end_hash(),
            _ => {}
        }
    }

    /// A value of the wrong kind (or null) stands where one was read before: the last one wins.
    fn clear(&mut self, place: Place) {
        match place {
            Place::Model => self.model = None,
            Place::Salt => self.salt = None,
            Place::Stream => self.stream = false,
            Place::OutputCap(rank) => self.caps[usize::from(rank)] = None,
            Place::SamplingParams => self.caps[0] = None,
            Place::Features => self.supplied = Supplied::default(),
            _ => {}
        }
    }

    fn begin_need_of(&mut self, field: JsonField) {
        if field != JsonField::Instructions {
            self.begin_need();
        }
    }

    /// Counts an element of `items`.
    fn count_item(&mut self) {
        if matches!(self.stack.last(), Some((Place::Json(JsonField::Items), _))) {
            self.items += 1;
        }
    }

    fn bad_id_at(&mut self, value: String) {
        if self.bad_id.is_none() {
            self.bad_id = Some((self.items, value));
        }
    }

    fn token_id(&mut self, text: &[u8]) {
        match whole_number(text).and_then(|n| u32::try_from(n).ok()) {
            Some(id) => self.token(id),
            None => {
                self.bad_id_at(String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned());
                self.bad();
            }
        }
    }

    fn null(&mut self, place: Place) {
        match place {
            Place::Prompt | Place::EmbedInput | Place::TokenIds | Place::Messages | Place::ImagePrompt => {
                self.begin_need();
                self.absent_field(place);
            }
            Place::Json(JsonField::Input | JsonField::Items) => {
                self.begin_need();
                self.absent_field(place);
            }
            Place::Json(JsonField::Instructions) | Place::Tools | Place::System => self.absent_field(place),
            Place::PromptItem | Place::EmbedItem | Place::TokenId => {
                self.bad_id_at("null".into());
                self.bad();
            }
            Place::Message | Place::Block => self.bad(),
            _ => self.clear(place),
        }
    }
}

/// A finite, whole, non-negative number, however it is written.
fn whole_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(n) = text.parse::<u64>() {
        return Some(n);
    }
    let n: f64 = text.parse().ok()?;
    (n >= 0.0 && n.fract() == 0.0 && n < 2f64.powi(64)).then_some(n as u64)
}

impl Sink for Fields {
    fn open(&mut self, container: Container, at: usize) {
        let place = self.here();
        let place = if place == Place::Skip { place } else { self.enter(place, container, at) };
        self.stack.push((place, container));
    }

    fn close(&mut self, container: Container, end: usize) {
        if let Some((place, _)) = self.stack.pop()
            && place != Place::Skip
        {
            self.leave(place, container, end);
        }
    }

    fn string_start(&mut self, key: bool, at: usize) {
        self.nonempty = false;
        if key {
            self.key.len = 0;
            let parent = self.stack.last().map_or(Place::Skip, |(p, _)| *p);
            self.target = match parent {
                Place::Skip => Target::Nowhere,
                Place::Tools | Place::Json(_) | Place::JsonPart | Place::ToolUseInput => self.begin_json_string(),
                _ => Target::Key,
            };
            return;
        }
        let place = self.here();
        self.string = (place, at);
        self.target = if place == Place::Skip { Target::Nowhere } else { self.begin_string(place, at) };
    }

    #[inline]
    fn string_piece(&mut self, piece: &[u8]) {
        self.nonempty = true;
        match self.target {
            Target::Nowhere => {}
            Target::Text => self.blocks.write(piece),
            Target::Json => self.json(|_, out| escape(piece, out)),
            Target::Name => {
                let room = (MAX_NAME + 1).saturating_sub(self.name.len());
                self.name.extend_from_slice(&piece[..piece.len().min(room)]);
            }
            Target::Role => {
                self.blocks.write(piece);
                if let Some((_, role)) = self.late_roles.back_mut() {
                    role.extend_from_slice(piece);
                }
            }
            Target::Kind => self.kind.push(piece),
            Target::Asset => self.asset.data(piece),
            Target::Format => self.asset.format(piece),
            Target::SystemText => self.system_piece(piece),
            Target::MmHash => self.supplied.hash(piece),
            Target::Key => self.key.push(piece),
        }
    }

    fn string_end(&mut self, key: bool, end: usize) {
        if !key {
            let (place, at) = self.string;
            return self.end_value_string(place, at..end);
        }
        let parent = self.stack.last().map_or(Place::Skip, |(p, _)| *p);
        match self.target {
            Target::Json => {
                self.end_json_string(true);
                self.member = Place::JsonPart;
            }
            Target::Key => {
                let key = self.key.get();
                let silenced = parent == Place::Block && self.kind_known && !carries(self.kind.get(), key);
                self.member = if silenced { Place::Skip } else { parent.member(self.api, key) };
            }
            _ => self.member = Place::Skip,
        }
    }

    fn scalar(&mut self, scalar: Scalar<'_>, span: Range<usize>) {
        let place = self.here();
        let text = match scalar {
            Scalar::Number(text) => text,
            Scalar::Bool(true) => b"true",
            Scalar::Bool(false) => b"false",
            Scalar::Null => b"null",
        };
        match (place, scalar) {
            (Place::Skip, _) => {}
            (Place::JsonPart, _) => {
                self.count_item();
                self.json(|c, out| c.scalar(text, out));
            }
            (Place::Root, Scalar::Null) => {}
            (Place::Root, _) => {
                self.not_an_object = Some(if text[0].is_ascii_alphabetic() { "a boolean" } else { "a number" })
            }
            (Place::ToolUseInput, _) => {
                self.compact = Compact::default();
                self.json(|c, out| c.scalar(text, out));
            }
            (_, Scalar::Null) => self.null(place),
            (Place::Stream, _) => self.stream = scalar == Scalar::Bool(true),
            (Place::OutputCap(rank), Scalar::Number(text)) => self.caps[usize::from(rank)] = whole_number(text),
            (Place::Tools, _) => {
                self.begin_tools(span.start);
                self.json(|c, out| c.scalar(text, out));
                self.end_tools(span.end);
            }
            (Place::Json(field), _) => {
                self.begin_need_of(field);
                self.begin_json(field, span.start);
                if field == JsonField::Items {
                    self.bad();
                }
                self.json(|c, out| c.scalar(text, out));
                if field != JsonField::Instructions {
                    self.end_need(true);
                }
                self.end_json(field, span.end);
            }
            (Place::TokenId, Scalar::Number(text)) => {
                self.token_id(text);
                if matches!(self.stack.last(), Some((Place::TokenIds, _))) {
                    self.items += 1;
                }
            }
            (Place::PromptItem | Place::EmbedItem, Scalar::Number(text)) => {
                if self.shaped(Shape::Ids) {
                    self.token_id(text);
                }
                self.items += 1;
            }
            (Place::TokenId | Place::PromptItem | Place::EmbedItem, _) => {
                self.bad_id_at(String::from_utf8_lossy(text).into_owned());
                self.bad();
            }
            (Place::Prompt | Place::EmbedInput | Place::TokenIds | Place::Messages | Place::ImagePrompt, _) => {
                self.begin_need();
                self.bad();
            }
            (Place::Message | Place::Block | Place::Role | Place::Content, _) => self.bad(),
            (Place::System, _) => self.absent_field(place),
            (Place::MmOffset, Scalar::Number(text)) => self.supplied.offset(whole_number(text)),
            (Place::MmLength, Scalar::Number(text)) => self.supplied.length(whole_number(text)),
            _ => self.clear(place),
        }
    }
}
