//! Parts of prompts: token ids, roles, assets, system blocks.

use super::super::asset::Whole;
use super::super::blocks::TOKEN;
use super::super::place::{JsonField, Place};
use super::super::{Feature, MAX_FEATURES};
use super::{BILLING, Fields, Shape, Target};

impl Fields {
    pub(super) fn token(&mut self, id: u32) {
        self.blocks.write(&id.to_le_bytes());
        self.filled = true;
    }

    /// Settles what the elements of the array are; false when this one differs from the first.
    pub(super) fn shaped(&mut self, shape: Shape) -> bool {
        if self.shape == Shape::Unknown {
            self.shape = shape;
        }
        if self.shape != shape {
            self.bad();
        }
        self.shape == shape
    }

    pub(super) fn begin_message(&mut self) {
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

    pub(super) fn begin_role(&mut self) -> Target {
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

    pub(super) fn end_asset(&mut self) {
        let Some(whole) = self.asset.end(&self.estimate) else { return };
        self.has_assets = true;
        if self.in_result && self.held.len() < MAX_FEATURES {
            self.held.push(whole);
        } else {
            self.place_asset(whole);
        }
    }

    pub(super) fn place_asset(&mut self, whole: Whole) {
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

    pub(super) fn system_piece(&mut self, piece: &[u8]) {
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

    pub(super) fn settle_system(&mut self) {
        if let Some(head) = self.system_head.take() {
            self.system_counts = head != BILLING;
            if self.system_counts {
                self.blocks.write(&head);
            }
        }
    }

    /// Counts an element of `items`.
    pub(super) fn count_item(&mut self) {
        if matches!(self.stack.last(), Some((Place::Json(JsonField::Items), _))) {
            self.items += 1;
        }
    }

    pub(super) fn bad_id_at(&mut self, value: String) {
        if self.bad_id.is_none() {
            self.bad_id = Some((self.items, value));
        }
    }

    pub(super) fn token_id(&mut self, text: &[u8]) {
        match whole_number(text).and_then(|n| u32::try_from(n).ok()) {
            Some(id) => self.token(id),
            None => {
                self.bad_id_at(String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned());
                self.bad();
            }
        }
    }
}

/// A finite, whole, non-negative number, however it is written.
pub(super) fn whole_number(text: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(text).ok()?;
    if let Ok(n) = text.parse::<u64>() {
        return Some(n);
    }
    let n: f64 = text.parse().ok()?;
    (n >= 0.0 && n.fract() == 0.0 && n < 2f64.powi(64)).then_some(n as u64)
}
