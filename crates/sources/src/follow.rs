//! Following a file that people and machines rewrite in every way there is.
//!
//! The file is looked at by its *path* and compared by its *content*: a rename over it, a removal and a new file, a swapped symbolic link (as
//! Kubernetes does with mounted maps), a rewrite in place are all the same thing. A change counts when two looks in a row agree, so
//! that a file caught half written is not taken for a short one; an empty file counts after two seconds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::xxh64;

/// Time between two looks at a file.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time between looks at a file that changed.
const SETTLING: Duration = Duration::from_millis(100);
/// Looks in a row that must agree before a change is taken.
const AGREE: u32 = 1;
/// The same for a file without content: most often one that a slow writer has opened and not filled yet.
const AGREE_ON_NOTHING: u32 = 20;

type Read = dyn Fn() -> io::Result<Vec<u8>> + Send + Sync;

/// A file, and what of it was taken.
pub struct Follower {
    read: Arc<Read>,
    taken: u64,
    readable: bool,
}

impl Follower {
    /// Follows what `read` gives, of which `taken` is known already.
    pub fn new(read: impl Fn() -> io::Result<Vec<u8>> + Send + Sync + 'static, taken: &[u8]) -> Self {
        Self { read: Arc::new(read), taken: xxh64(taken), readable: true }
    }

    /// Waits for the next content that differs from the last one taken. `unreadable` is told once each time that the file stops being readable.
    /// Must run inside a Tokio runtime.
    pub async fn changed(&mut self, unreadable: impl Fn(&io::Error)) -> Vec<u8> {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            match self.settled().await {
                Ok(Some(bytes)) => {
                    self.readable = true;
                    self.taken = xxh64(&bytes);
                    return bytes;
                }
                Ok(None) => self.readable = true,
                Err(error) => {
                    if self.readable {
                        unreadable(&error);
                    }
                    self.readable = false;
                }
            }
        }
    }

    /// The content when it differs from what was taken and has stopped changing.
    async fn settled(&self) -> io::Result<Option<Vec<u8>>> {
        let mut last = self.look().await?;
        let mut agreed = 0;
        loop {
            if xxh64(&last) == self.taken {
                return Ok(None);
            }
            if agreed >= if last.is_empty() { AGREE_ON_NOTHING } else { AGREE } {
                return Ok(Some(last));
            }
            tokio::time::sleep(SETTLING).await;
            let now = self.look().await?;
            agreed = if now == last { agreed + 1 } else { 0 };
            last = now;
        }
    }

    async fn look(&self) -> io::Result<Vec<u8>> {
        let read = Arc::clone(&self.read);
        tokio::task::spawn_blocking(move || read()).await.unwrap_or_else(|gone| Err(io::Error::other(gone)))
    }
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Follower").field("readable", &self.readable).finish_non_exhaustive()
    }
}
