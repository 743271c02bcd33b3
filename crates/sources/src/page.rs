//! Buffers for pages under way, shared by all connections.
//!
//! Fetches are spread in time, so that of hundreds of connections only a few have a page under way: a buffer belongs to a page, not to a
//! connection. What all pages under way hold together is bounded, whatever engines send.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::http::{FetchError, Sink};

/// Most bytes of one page.
pub(crate) const MAX_PAGE: usize = 8 << 20;
/// Most bytes of all pages under way.
const MAX_ALL: usize = 64 << 20;
/// A buffer that grew beyond this is given back to the system.
const MAX_KEPT: usize = 256 << 10;
/// Buffers kept for the next pages.
const KEPT: usize = 16;

/// The buffers of one process.
#[derive(Debug, Default)]
pub(crate) struct Pages {
    idle: Mutex<Vec<Vec<u8>>>,
    held: AtomicUsize,
}

impl Pages {
    /// An empty page.
    pub(crate) fn take(self: &Arc<Self>) -> Page {
        Page { whole: Bytes::new(), joined: Vec::new(), charged: 0, pages: Arc::clone(self) }
    }
}

/// A page that is being received. What came in one piece is not copied.
#[derive(Debug)]
pub(crate) struct Page {
    whole: Bytes,
    joined: Vec<u8>,
    charged: usize,
    pages: Arc<Pages>,
}

impl Page {
    /// What has arrived.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.joined.is_empty() { &self.whole } else { &self.joined }
    }

    fn append(&mut self, more: &[u8], expected: usize) -> Result<(), FetchError> {
        if self.joined.capacity() == 0 {
            self.joined = self.pages.idle.lock().pop().unwrap_or_default();
            self.charge()?;
        }
        let wanted = (self.joined.len() + more.len()).max(expected.min(MAX_PAGE));
        if wanted > self.joined.capacity() {
            self.joined.reserve(wanted - self.joined.len());
            self.charge()?;
        }
        self.joined.extend_from_slice(more);
        Ok(())
    }

    fn charge(&mut self) -> Result<(), FetchError> {
        let more = self.joined.capacity() - self.charged;
        self.charged += more;
        let held = self.pages.held.fetch_add(more, Ordering::Relaxed) + more;
        if held > MAX_ALL { Err(FetchError::Crowded) } else { Ok(()) }
    }
}

impl Sink for Page {
    fn restart(&mut self) {
        self.whole = Bytes::new();
        self.joined.clear();
    }

    fn piece(&mut self, piece: Bytes, expected: Option<u64>) -> Result<(), FetchError> {
        let expected = expected.unwrap_or(0);
        let have = self.bytes().len();
        if have + piece.len() > MAX_PAGE || expected > MAX_PAGE as u64 {
            return Err(FetchError::TooLarge(MAX_PAGE));
        }
        if have == 0 && self.joined.capacity() == 0 {
            self.whole = piece;
            return Ok(());
        }
        let expected = expected as usize;
        if self.joined.is_empty() {
            let first = std::mem::take(&mut self.whole);
            self.append(&first, expected)?;
        }
        self.append(&piece, expected)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.pages.held.fetch_sub(self.charged, Ordering::Relaxed);
        let mut buffer = std::mem::take(&mut self.joined);
        if (1..=MAX_KEPT).contains(&buffer.capacity()) {
            let mut idle = self.pages.idle.lock();
            if idle.len() < KEPT {
                buffer.clear();
                idle.push(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_in_one_piece_is_not_copied_and_pieces_are_joined_in_order() {
        let pages = Arc::new(Pages::default());
        let mut page = pages.take();
        let piece = Bytes::from_static(b"a 1\n");
        page.piece(piece.clone(), Some(8)).unwrap();
        assert_eq!(page.bytes().as_ptr(), piece.as_ptr());
        page.piece(Bytes::from_static(b"b 2\n"), Some(8)).unwrap();
        assert_eq!(page.bytes(), b"a 1\nb 2\n");
        page.restart();
        assert_eq!(page.bytes(), b"");
        page.piece(Bytes::from_static(b"c"), None).unwrap();
        page.piece(Bytes::from_static(b"d"), None).unwrap();
        assert_eq!(page.bytes(), b"cd");
    }

    #[test]
    fn buffers_are_reused_and_large_ones_given_back() {
        let pages = Arc::new(Pages::default());
        for (size, kept) in [(60_000, 1), (MAX_KEPT, 0), (60_000, 1), (60_000, 1)] {
            let mut page = pages.take();
            page.piece(vec![0; size].into(), None).unwrap();
            page.piece(vec![0; size].into(), None).unwrap();
            drop(page);
            assert_eq!(pages.idle.lock().len(), kept, "after pieces of {size}");
        }
        assert_eq!(pages.held.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_page_and_all_pages_together_are_bounded() {
        let pages = Arc::new(Pages::default());
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let mut page = pages.take();
        assert!(matches!(page.piece(piece.clone(), Some(9 << 20)), Err(FetchError::TooLarge(_))), "announced");
        let mut page = pages.take();
        for _ in 0..8 {
            page.piece(piece.clone(), None).unwrap();
        }
        assert!(matches!(page.piece(piece.clone(), None), Err(FetchError::TooLarge(_))), "sent");
        drop(page);
        let mut many = Vec::new();
        let crowded = (0..100).any(|_| {
            let mut page = pages.take();
            let full = (0..2).any(|_| page.piece(piece.clone(), Some(2 << 20)).is_err());
            many.push(page);
            full
        });
        assert!(crowded && many.len() <= 34, "{} pages of 2 MiB were held", many.len());
        many.clear();
        assert_eq!(pages.held.load(Ordering::Relaxed), 0);
    }
}
