//! What a process can answer beside its pool: the binary brings it, so that this crate need not know it.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::Guard;

/// Further paths below `/api/`. Called behind the guard, on a thread that may wait.
pub trait Extension: Send + Sync + 'static {
    /// Status and JSON for a request; `None` when the path is somebody else's. A body has 4 KiB at most.
    fn answer(&self, method: &str, path: &str, query: &str, body: &[u8]) -> Option<(u16, Value)>;
}

/// What the admin listener is started with.
#[derive(Clone, Default)]
pub struct Admin {
    /// Who may ask.
    pub guard: Guard,
    /// What else there is to ask for; the first that knows a path answers.
    pub extensions: Vec<Arc<dyn Extension>>,
}

impl From<Guard> for Admin {
    fn from(guard: Guard) -> Self {
        Self { guard, extensions: Vec::new() }
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("extensions", &self.extensions.len()).finish_non_exhaustive()
    }
}
