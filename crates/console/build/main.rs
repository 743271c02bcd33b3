//! Builds the console where Node is there, and embeds what came of it.
//!
//! Nothing here makes a build fail: without Node, without network, or with `POINTSMAN_SKIP_CONSOLE` set, the crate embeds a page that says how to get
//! the console. `console/dist` is taken as it is while its stamp names the sources that are here, so that a second profile, or a machine without
//! Node, builds nothing anew.

#![allow(clippy::print_stdout, reason = "a build script talks to cargo on stdout")]

mod bundle;
mod sources;

use std::path::{Path, PathBuf};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../console");
    println!("cargo:rerun-if-env-changed=POINTSMAN_SKIP_CONSOLE");
    println!("cargo:rerun-if-changed=build");
    let watched = sources::Sources::of(&root);
    for path in &watched.watch {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    let files = match made(&root, &watched) {
        Ok(dist) => bundle::files(&dist),
        Err(why) => {
            // Who asked for no console needs no warning.
            if !why.is_empty() {
                println!("cargo:warning=the console is not built in: {why}");
            }
            Vec::new()
        }
    };
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    if let Err(error) = bundle::write(&out, &files) {
        println!("cargo:warning=the console cannot be embedded: {error}");
        let _ = std::fs::write(out.join("bundle.rs"), "&[]");
    }
}

/// The folder of what was built from these sources; why there is none.
fn made(root: &Path, sources: &sources::Sources) -> Result<PathBuf, String> {
    if std::env::var_os("POINTSMAN_SKIP_CONSOLE").is_some_and(|v| !v.is_empty() && v != "0") {
        return Err(String::new());
    }
    let dist = root.join("dist");
    let stamp = root.join("dist.stamp");
    let is_current =
        || std::fs::read_to_string(&stamp).is_ok_and(|s| s == sources.stamp) && dist.join("index.html").exists();
    if is_current() {
        return Ok(dist);
    }
    if !root.join("package-lock.json").exists() {
        return Err("there is no folder console/".to_owned());
    }
    // Another build may be at the same work; the first one does it for both.
    let lock = sources::Lock::take(&root.join(".build.lock"));
    if is_current() {
        return Ok(dist);
    }
    let _ = std::fs::remove_file(&stamp);
    if !root.join("node_modules/.package-lock.json").exists() || sources.packages_changed(root) {
        sources::npm(root, &["ci", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"])?;
        let _ = std::fs::write(root.join("node_modules/.stamp"), &sources.packages);
    }
    sources::npm(root, &["run", "--silent", "build"])?;
    std::fs::write(&stamp, &sources.stamp).map_err(|e| format!("{}: {e}", stamp.display()))?;
    drop(lock);
    Ok(dist)
}
