//! Where things lie: the checkout, its build output, and the cache outside it for what is slow to install.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The root of the checkout this binary was built from.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in a folder of the workspace")
}

/// The folder of build output, honouring `CARGO_TARGET_DIR`.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where tools and engines are installed, by version, so that several checkouts share them:
/// `$XDG_CACHE_HOME/pointsman-dev`, or the same under `~/.cache`.
pub(crate) fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
        Some(base) => PathBuf::from(base),
        None => {
            PathBuf::from(std::env::var_os("HOME").context("neither XDG_CACHE_HOME nor HOME is set")?).join(".cache")
        }
    };
    let cache = base.join("pointsman-dev");
    std::fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    Ok(cache)
}

/// A fresh folder `target/NAME` for logs and temporary files of one job.
pub(crate) fn scratch(name: &str) -> Result<PathBuf> {
    let folder = target().join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
