//! The events of the tokenizer, handed on by place.

use super::super::MAX_NAME;
use super::super::compact::{Compact, escape};
use super::super::place::{JsonField, Place, carries};
use super::super::supplied::Supplied;
use super::parts::whole_number;
use super::{Fields, Shape, Target};
use crate::json::{Container, Scalar, Sink};
use std::ops::Range;

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

impl Fields {
    /// A value of the wrong kind (or null) stands where one was read before: the last one wins.
    pub(super) fn clear(&mut self, place: Place) {
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

    pub(super) fn null(&mut self, place: Place) {
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
