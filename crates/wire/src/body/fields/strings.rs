//! Strings, as they begin and end.

use super::super::MAX_NAME;
use super::super::compact::Compact;
use super::super::place::{JsonField, Medium, Place};
use super::{BILLING, Fields, Shape, Target};
use crate::json::Container;
use std::ops::Range;

impl Fields {
    /// A string begins at `place`. Returns where its pieces go.
    pub(super) fn begin_string(&mut self, place: Place, at: usize) -> Target {
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

    pub(super) fn begin_json_string(&mut self) -> Target {
        self.json(|c, out| c.string_start(out));
        Target::Json
    }

    pub(super) fn end_json_string(&mut self, key: bool) {
        self.json(|c, out| c.string_end(key, out));
    }

    pub(super) fn end_value_string(&mut self, place: Place, span: Range<usize>) {
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
}
