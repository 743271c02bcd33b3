//! Who the endpoints are, when no cluster says so.

mod addresses;
mod file;

use std::path::Path;
use std::sync::Arc;

use pointsman_fleet::{Change, EndpointMeta, Fleet};
use tokio::task::JoinHandle;

use crate::follow::Follower;

pub use addresses::{AddressError, endpoints_of};
pub use file::{EndpointsFile, FileError};

/// Writes fixed endpoints and those of a file into a fleet, and follows the file until dropped.
///
/// How changes are told from unfinished writing, see [`Follower`].
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
        let watching = watch.then(|| tokio::spawn(follow(fleet, fixed, file, bytes)));
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

async fn follow(fleet: Arc<Fleet>, fixed: Vec<EndpointMeta>, file: EndpointsFile, known: Vec<u8>) {
    let read = file.clone();
    let mut follower = Follower::new(move || read.bytes(), &known);
    drop(known);
    loop {
        let unreadable = |error: &std::io::Error| {
            let file = shown(&file.path);
            tracing::warn!(file, %error, "endpoints file cannot be read; the endpoints stay as they are");
        };
        let bytes = follower.changed(unreadable).await;
        apply(&fleet, &fixed, &file, &bytes);
    }
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
