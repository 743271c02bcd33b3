//! Images, videos and sounds inside a prompt.

use super::dimensions::{base64, dimensions};
use super::estimate::{EstimateOptions, audio_tokens};
use super::place::Medium;
use xxhash_rust::xxh64::Xxh64;

/// Characters of an image's data that are kept to look for its size. A JPEG may carry a preview and colour tables before it.
const HEAD: usize = 128 << 10;
/// Longest name of an audio format that is kept.
const FORMAT: usize = 64;

/// The asset under way, hashed as its characters come.
#[derive(Default)]
pub(super) struct Asset {
    /// `None`: no asset is under way.
    pub(super) medium: Option<Medium>,
    hash: Xxh64,
    length: u64,
    head: Vec<u8>,
    /// The data is base64 by itself, not a URL.
    bare: bool,
    format: Vec<u8>,
}

/// An asset that is known whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole {
    pub(super) medium: Medium,
    pub(super) hash: u64,
    pub(super) tokens: u64,
}

impl Asset {
    pub(super) fn begin(&mut self, medium: Medium, bare: bool) {
        self.medium = Some(medium);
        self.hash.reset(0);
        self.length = 0;
        self.head.clear();
        self.bare = bare;
        self.format.clear();
    }

    pub(super) fn data(&mut self, piece: &[u8]) {
        self.hash.update(piece);
        self.length += piece.len() as u64;
        if self.medium == Some(Medium::Image) {
            let room = HEAD - self.head.len();
            // A URL that is no data URL cannot be looked into.
            if self.bare || self.head.len() < 5 || self.head.starts_with(b"data:") {
                self.head.extend_from_slice(&piece[..piece.len().min(room)]);
            }
        }
    }

    pub(super) fn format(&mut self, piece: &[u8]) {
        let room = FORMAT - self.format.len();
        self.format.extend_from_slice(&piece[..piece.len().min(room)]);
    }

    /// Ends the asset under way.
    pub(super) fn end(&mut self, estimate: &EstimateOptions) -> Option<Whole> {
        let medium = self.medium.take()?;
        if !self.format.is_empty() {
            self.hash.update(&self.format);
            self.length += self.format.len() as u64;
        }
        let tokens = match medium {
            Medium::Image => estimate.image.tokens(self.size()),
            Medium::Video => estimate.video.tokens(),
            Medium::Audio => audio_tokens(self.length),
        };
        Some(Whole { medium, hash: self.hash.digest(), tokens })
    }

    fn size(&self) -> Option<(u32, u32)> {
        let data = if self.bare {
            &self.head[..]
        } else {
            let rest = self.head.strip_prefix(b"data:")?;
            let comma = memchr::memchr(b',', rest)?;
            rest[..comma].ends_with(b";base64").then_some(&rest[comma + 1..])?
        };
        dimensions(&base64(data))
    }
}

impl std::fmt::Debug for Asset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Asset").field("medium", &self.medium).field("length", &self.length).finish_non_exhaustive()
    }
}
