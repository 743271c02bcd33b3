//! The fields that are hashed: in which order they come, and whether the needed one is there.

use super::super::compact::{Compact, sort_keys};
use super::super::place::{JsonField, Place, order};
use super::super::{Api, MAX_TOOLS};
use super::{Fields, Hashed, Need, Shape};

impl Fields {
    /// A hashed field begins that is there. The needed ones start afresh.
    pub(super) fn begin_field(&mut self, place: Place, at: usize) {
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

    pub(super) fn end_field(&mut self, place: Place, end: usize) {
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
    pub(super) fn absent_field(&mut self, place: Place) {
        if let Some(order) = order(self.api, place)
            && self.hashed[order].place.take().is_some()
        {
            self.late();
        }
    }

    pub(super) fn late(&mut self) {
        self.out_of_order = true;
        self.blocks.hashing = false;
    }

    /// The needed field begins: what an earlier one of the same name said is void.
    pub(super) fn begin_need(&mut self) {
        self.need = Need::Missing;
        self.bad_id = None;
        self.shape = Shape::Unknown;
        self.items = 0;
        self.filled = false;
        self.late_roles_void();
    }

    pub(super) fn late_roles_void(&mut self) {
        if !self.second {
            self.late_roles.clear();
        }
    }

    pub(super) fn bad(&mut self) {
        self.need = Need::Bad;
    }

    pub(super) fn end_need(&mut self, good: bool) {
        if self.need != Need::Bad {
            self.need = if good { Need::Good } else { Need::Missing };
        }
    }

    pub(super) fn begin_json(&mut self, field: JsonField, at: usize) {
        self.begin_field(Place::Json(field), at);
        self.compact = Compact::default();
        match field {
            JsonField::Instructions => self.wrap(b"{\"instructions\":"),
            JsonField::Input => self.wrap(b"{\"input\":"),
            JsonField::Items => {}
        }
    }

    pub(super) fn end_json(&mut self, field: JsonField, end: usize) {
        if field != JsonField::Items {
            self.blocks.write(b"}");
        }
        self.end_field(Place::Json(field), end);
    }

    /// An element of the array that a responses request is hashed as.
    pub(super) fn wrap(&mut self, name: &[u8]) {
        self.blocks.write(if self.blocks.bytes() == 0 { b"[" } else { b"," });
        self.blocks.write(name);
    }

    pub(super) fn begin_tools(&mut self, at: usize) {
        self.value_at = at;
        self.compact = Compact::default();
        self.tools = Some(Vec::new());
    }

    pub(super) fn end_tools(&mut self, end: usize) {
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

    pub(super) fn open_tools(&mut self) {
        self.begin_field(Place::Tools, self.value_at);
        if self.api == Api::Responses {
            self.wrap(b"{\"tools\":");
        }
    }

    /// Writes JSON into the prompt, or into the tool buffer while there is one.
    pub(super) fn json(&mut self, write: impl FnOnce(&mut Compact, &mut dyn FnMut(&[u8]))) {
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

    pub(super) fn begin_need_of(&mut self, field: JsonField) {
        if field != JsonField::Instructions {
            self.begin_need();
        }
    }
}
