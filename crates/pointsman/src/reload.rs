//! Another configuration while the process runs: when its file changes (`--watch-config-file`), or on SIGHUP. And the shadow configuration
//! (`--shadow-config-file`), which is only scored.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pointsman_config::{Faults, render};
use pointsman_plugins::DefaultProfile;
use pointsman_router::{Pool, Reloaded, data_layers_differ};
use pointsman_sources::{Follower, ScrapeSource, Sources, warm_up};

use crate::check::read;
use crate::failure::{Exit, Failure};
use crate::terminal::Paint;

/// Where the configuration came from, and how it is read.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    /// The file; `None` when it was given as text, or not at all.
    pub(crate) file: Option<PathBuf>,
    /// What the file held.
    pub(crate) document: Vec<u8>,
    pub(crate) allow_experimental: bool,
    /// What an empty file means.
    pub(crate) default: DefaultProfile,
    /// Whether changes of the file are followed.
    pub(crate) watch: bool,
}

/// Puts other configurations in force.
#[derive(Clone)]
pub(crate) struct Reloader {
    pool: Arc<Pool>,
    sources: Arc<Sources>,
    origin: Arc<Origin>,
}

impl Reloader {
    /// Follows the file, where that is wanted.
    pub(crate) fn start(pool: &Arc<Pool>, sources: &Arc<Sources>, origin: Origin) -> Self {
        let reloader = Self { pool: Arc::clone(pool), sources: Arc::clone(sources), origin: Arc::new(origin) };
        match reloader.origin.file.clone() {
            Some(file) if reloader.origin.watch => drop(tokio::spawn(reloader.clone().follow(file))),
            None if reloader.origin.watch => {
                tracing::warn!("--watch-config-file has nothing to follow: the configuration came from no file");
            }
            _ => {}
        }
        reloader
    }

    async fn follow(self, file: PathBuf) {
        let path = file.clone();
        let look = move || read_again(&path).map_err(std::io::Error::other);
        let mut follower = Follower::new(look, &self.origin.document);
        loop {
            let unreadable = |error: &std::io::Error| {
                tracing::warn!(file = %file.display(), %error, "the configuration file cannot be read; the configuration stays as it is");
                self.pool.refuse_reload(error.to_string());
            };
            let document = follower.changed(unreadable).await;
            self.put_in_force(document).await;
        }
    }

    /// Reads the file again, now.
    pub(crate) async fn again(&self) {
        let Some(file) = self.origin.file.clone() else {
            tracing::info!("there is no configuration file to read again");
            return;
        };
        let found = tokio::task::spawn_blocking(move || read_again(&file)).await;
        match found {
            Ok(Ok(document)) => self.put_in_force(document).await,
            Ok(Err(error)) => {
                tracing::error!(%error, "the configuration stays as it is");
                self.pool.refuse_reload(error.to_string());
            }
            Err(error) => tracing::error!(%error, "the configuration stays as it is"),
        }
    }

    /// Compiling takes milliseconds, which no request should wait for.
    async fn put_in_force(&self, document: Vec<u8>) {
        let this = self.clone();
        let _ = tokio::task::spawn_blocking(move || this.reload(&document)).await;
    }

    fn reload(&self, document: &[u8]) {
        let Origin { file, allow_experimental, default, .. } = &*self.origin;
        let name = file.as_deref().map_or_else(String::new, |f| f.display().to_string());
        if document.iter().all(u8::is_ascii_whitespace) {
            // At the start an empty file means the default; later it is most likely one that somebody is still writing.
            tracing::error!(file = name, "the configuration file is empty; the configuration stays as it is");
            self.pool.refuse_reload("the file is empty".to_owned());
            return;
        }
        let mut faults = Faults::new();
        let reloaded = self.pool.reload(document, *allow_experimental, *default, &mut faults, |old, new| {
            // At the start no document means the default; later it is most likely one that somebody is still writing.
            if new.effective["builtIn"] == true {
                return Err("the file holds no document, only comments".to_owned());
            }
            if !data_layers_differ(&old.effective, &new.effective) {
                return Ok(());
            }
            let scrape = ScrapeSource::compile_all(&new.sources).map_err(|e| format!("TLS towards engines: {e}"))?;
            self.sources.set_scrape(scrape);
            Ok(())
        });
        for warning in faults.sorted().iter().filter(|f| f.severity == pointsman_config::Severity::Warning) {
            tracing::warn!(file = name, "{warning}");
        }
        match reloaded {
            Reloaded::Unchanged => tracing::info!(file = name, "the configuration says what is in force already"),
            Reloaded::Applied { version, changes } => {
                tracing::info!(file = name, version, changes = changes.join("; "), "another configuration is in force");
                let renderer = (self.pool.render.clone(), self.pool.active().compiled.render.clone());
                if let (Some(client), Some(render)) = renderer {
                    tokio::runtime::Handle::current().spawn(warm_up(client, render));
                }
            }
            Reloaded::Refused(why) => {
                let in_force = self.pool.active().version;
                tracing::error!(
                    file = name,
                    in_force,
                    why,
                    "the configuration is refused; the one before stays in force"
                );
            }
        }
    }
}

/// What the file holds now. One that is no file any more, such as a pipe, may never end.
fn read_again(file: &Path) -> Result<Vec<u8>, String> {
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(format!("{} is not a regular file", file.display()));
    }
    read(file).map(|(_, bytes)| bytes).map_err(|e| e.to_string())
}

/// Scores the profiles of `file` beside those in force.
pub(crate) fn shadow(
    pool: &Pool,
    file: &Path,
    allow_experimental: bool,
    default: DefaultProfile,
) -> Result<(), Failure> {
    let (name, bytes) = read(file)?;
    let mut faults = Faults::new();
    let taken = pool.shadow(&bytes, allow_experimental, default, &mut faults);
    if !faults.is_empty() {
        let text = render(&name, &String::from_utf8_lossy(&bytes), &faults, Paint::stderr().is_on());
        std::io::stderr().write_all(text.as_bytes())?;
    }
    if let Some(blind) = taken {
        for name in blind {
            tracing::warn!(
                plugin = &*name,
                "the shadow's plugin learns nothing: the configuration in force has none of that type and name"
            );
        }
        Ok(())
    } else {
        Err(Failure::new(format!("the shadow configuration {name} cannot be used")).exit(Exit::No))
    }
}
