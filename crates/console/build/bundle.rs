//! The files of the console, compressed, as a table in Rust.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// Files below a folder, by their path in it.
pub(crate) fn files(dist: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    walk(dist, dist, &mut found);
    found.sort();
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, PathBuf)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            walk(root, &path, found);
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            found.push((name.to_owned(), path));
        }
    }
}

/// Writes `bundle.rs`, and beside it each file, compressed.
pub(crate) fn write(out: &Path, files: &[(String, PathBuf)]) -> io::Result<()> {
    let mut table = String::from("&[\n");
    for (at, (name, path)) in files.iter().enumerate() {
        let mut gz = GzEncoder::new(Vec::new(), Compression::best());
        let content = fs::read(path)?;
        gz.write_all(&content)?;
        let packed = format!("bundle-{at}.gz");
        fs::write(out.join(&packed), gz.finish()?)?;
        let tag =
            content.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3));
        let _ = writeln!(
            table,
            "    File {{ path: {name:?}, etag: \"\\\"{tag:016x}\\\"\", gzip: include_bytes!(concat!(env!(\"OUT_DIR\"), \"/{packed}\")) }},"
        );
    }
    table.push_str("]\n");
    fs::write(out.join("bundle.rs"), table)
}
