//! Who the endpoints are, when no cluster says so.

mod addresses;
mod file;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pointsman_core::xxh64;
use pointsman_fleet::{Change, EndpointMeta, Fleet};
use tokio::task::JoinHandle;

pub use addresses::{AddressError, endpoints_of};
pub use file::{EndpointsFile, FileError};

/// Time between two looks at a watched file.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time between looks at a file that changed.
const SETTLING: Duration = Duration::from_millis(100);
/// Looks in a row that must agree before a change is taken.
const AGREE: u32 = 1;
/// The same for a file without content: most often one that a slow writer has opened and not filled yet.
const AGREE_ON_NOTHING: u32 = 20;

/// Writes fixed endpoints and those of a file into a fleet, and follows the file until dropped.
///
/// The file is looked at by its *path* and compared by its *content*: a rename over it, a removal and a new file, a swapped symbolic link (as
/// Kubernetes does with mounted maps), a rewrite in place are all the same thing. A change counts when two looks in a row agree, so
/// that a file caught half written is not taken for a short one; an empty file counts after two seconds.
///
/// Entries with faults are left out and told in the log. A file that cannot be read, or of which nothing valid is left, changes nothing.
#[derive(Debug)]
pub struct Discovery {
    watching: Option<JoinHandle<()>>,
}

impl Discovery {
    /// Makes the fleet consist of `fixed` and the endpoints of `file`. With `watch`, changes of the file are followed on the current runtime.
    ///
    /// # Errors
    /// Any fault of the file: at start-up, a list that is wrong in part is wrong. The fleet is left as it is then.
    ///
    /// # Panics
    /// With `watch`, outside a Tokio runtime.
    pub fn start(
        fleet: Arc<Fleet>,
        fixed: Vec<EndpointMeta>,
        file: Option<EndpointsFile>,
        watch: bool,
    ) -> Result<Self, FileError> {
        let Some(file) = file else {
            tell(&fleet.replace_all(fixed));
            return Ok(Self { watching: None });
        };
        let bytes = file.read()?;
        let listed = file.parse_strict(&bytes)?;
        tell(&fleet.replace_all([fixed.clone(), listed].concat()));
        let watching = watch.then(|| tokio::spawn(follow(fleet, fixed, file, xxh64(&bytes))));
        Ok(Self { watching })
    }
}

impl Drop for Discovery {
    fn drop(&mut self) {
        if let Some(watching) = &self.watching {
            watching.abort();
        }
    }
}

async fn follow(fleet: Arc<Fleet>, fixed: Vec<EndpointMeta>, file: EndpointsFile, mut applied: u64) {
    let file = Arc::new(file);
    let mut readable = true;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let bytes = match settled(&file, applied).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) => {
                readable = true;
                continue;
            }
            Err(error) => {
                if readable {
                    tracing::warn!(%error, "endpoints file cannot be read; the endpoints stay as they are");
                }
                readable = false;
                continue;
            }
        };
        readable = true;
        applied = xxh64(&bytes);
        apply(&fleet, &fixed, &file, &bytes);
    }
}

/// The content when it differs from what was applied and has stopped changing.
async fn settled(file: &Arc<EndpointsFile>, applied: u64) -> Result<Option<Vec<u8>>, FileError> {
    let mut last = look(file).await?;
    let mut agreed = 0;
    loop {
        if xxh64(&last) == applied {
            return Ok(None);
        }
        if agreed >= if last.is_empty() { AGREE_ON_NOTHING } else { AGREE } {
            return Ok(Some(last));
        }
        tokio::time::sleep(SETTLING).await;
        let now = look(file).await?;
        agreed = if now == last { agreed + 1 } else { 0 };
        last = now;
    }
}

async fn look(file: &Arc<EndpointsFile>) -> Result<Vec<u8>, FileError> {
    let read = Arc::clone(file);
    let looked = tokio::task::spawn_blocking(move || read.read()).await;
    looked.unwrap_or_else(|gone| Err(file.unreadable(std::io::Error::other(gone))))
}

fn apply(fleet: &Fleet, fixed: &[EndpointMeta], file: &EndpointsFile, bytes: &[u8]) {
    let path = file.path.display();
    let (listed, faults) = file.parse(bytes);
    if faults.errors() > 0 {
        let told = faults.sorted().iter().map(|f| format!("{path}:{f}")).collect::<Vec<_>>().join("; ");
        tracing::error!(faults = told, "endpoints file has faults");
    }
    // Faults that leave nothing over are a file gone wrong, not a pool without endpoints.
    let Some(listed) = listed.filter(|listed| faults.errors() == 0 || !listed.is_empty()) else {
        tracing::error!(file = %path, "endpoints file is not usable; the endpoints stay as they are");
        return;
    };
    let changes = fleet.replace_all([fixed, &listed].concat());
    tracing::info!(file = %path, endpoints = listed.len(), changes = changes.len(), "endpoints file loaded");
    if listed.is_empty() {
        tracing::warn!(file = %path, "the endpoints file lists nobody: every request is refused until it does (is its key `endpoints`?)");
    }
    tell(&changes);
}

/// One log line for each endpoint that joined or left.
fn tell(changes: &[Change]) {
    for change in changes {
        match change {
            Change::Added(e) => tracing::info!(endpoint = %e.name(), address = e.host_port(), "endpoint joined"),
            Change::Removed(e) => tracing::info!(endpoint = %e.name(), address = e.host_port(), "endpoint left"),
            Change::Replaced { old, new } => {
                tracing::info!(endpoint = %old.name(), address = old.host_port(), "endpoint left");
                tracing::info!(endpoint = %new.name(), address = new.host_port(), "endpoint joined");
            }
            Change::Updated(e) => tracing::info!(endpoint = %e.name(), "endpoint described anew"),
            Change::Unchanged(_) => {}
        }
    }
}

/// The path of a file, as it is shown.
fn shown(path: &Path) -> String {
    path.display().to_string()
}
