//! Objects and arrays, as they begin and end.

use super::super::compact::Compact;
use super::super::place::{JsonField, Medium, Place};
use super::super::supplied::Supplied;
use super::{Fields, Shape};
use crate::json::Container;

impl Fields {
    /// The place of the value that begins now.
    pub(super) fn here(&self) -> Place {
        match self.stack.last() {
            None => self.root,
            Some((_, Container::Object)) => self.member,
            Some((place, Container::Array)) => place.element(),
        }
    }

    /// A container begins at `place`. Returns the place it has for what is inside.
    pub(super) fn enter(&mut self, place: Place, container: Container, at: usize) -> Place {
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
    pub(super) fn leave(&mut self, place: Place, container: Container, end: usize) {
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
}
