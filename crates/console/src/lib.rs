//! The console's files, as they are served: built from `console/` by the build script, compressed, embedded.
//!
//! A build without Node embeds none, and [`FALLBACK`] says how to get them. Nothing here is about HTTP, nor does it know what the console shows:
//! `admin` serves these files, and the files ask `admin` for everything else.

use std::io::Read as _;

/// One embedded file.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Path below the root of the console, such as `assets/index-4f2a.js`.
    pub path: &'static str,
    /// Strong validator, with its quotes.
    pub etag: &'static str,
    /// The content, gzipped.
    pub gzip: &'static [u8],
}

/// What is served in the place of a console that was not built in.
pub const FALLBACK: &str = include_str!("fallback.html");

/// Every embedded file, by path; empty without a console.
pub const FILES: &[File] = include!(concat!(env!("OUT_DIR"), "/bundle.rs"));

/// The page itself, where a console is built in.
#[must_use]
pub fn page() -> Option<&'static File> {
    file("index.html")
}

/// The file at a path.
#[must_use]
pub fn file(path: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.path == path)
}

impl File {
    /// What a browser must be told that it is.
    #[must_use]
    pub fn content_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map_or("", |(_, extension)| extension) {
            "html" => "text/html; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "css" => "text/css; charset=utf-8",
            "svg" => "image/svg+xml",
            "json" => "application/json",
            "woff2" => "font/woff2",
            "txt" => "text/plain; charset=utf-8",
            _ => "application/octet-stream",
        }
    }

    /// Whether its name changes whenever its content does, so that it can be kept for ever.
    #[must_use]
    pub fn is_immutable(&self) -> bool {
        self.path.starts_with("assets/")
    }

    /// The content as it was before it was compressed, for the rare client that takes no gzip.
    #[must_use]
    pub fn plain(&self) -> Vec<u8> {
        let mut out = Vec::new();
        // Our own build wrote it; what cannot be read is as good as empty.
        let _ = flate2::read::GzDecoder::new(self.gzip).read_to_end(&mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that a browser fetches before anything is seen.
    const MOST_GZIPPED: usize = 250 * 1024;

    #[test]
    fn all_files_together_are_smaller_than_250_kb_compressed() {
        let all: usize = FILES.iter().map(|file| file.gzip.len()).sum();
        assert!(all < MOST_GZIPPED, "{all} bytes");
    }

    #[test]
    fn the_page_names_only_files_that_are_embedded_and_has_no_inline_code() {
        let Some(page) = page() else { return };
        let text = String::from_utf8(page.plain()).expect("a page is text");
        for name in text.split('"').filter(|word| word.contains("assets/")) {
            assert!(file(name.trim_start_matches("./").trim_start_matches('/')).is_some(), "{name}");
        }
        assert!(!text.contains("<style") && !text.contains(" onload=") && !text.contains(" style="), "{text}");
        assert!(text.split("<script").skip(1).all(|tag| tag.contains("src=")), "{text}");
    }

    #[test]
    fn every_file_has_a_type_that_a_browser_takes() {
        for file in FILES {
            assert_ne!(file.content_type(), "application/octet-stream", "{}", file.path);
            assert!(file.path == "index.html" || file.is_immutable() || file.path.ends_with(".svg"), "{}", file.path);
        }
    }

    #[test]
    fn the_page_without_a_console_says_how_to_get_one() {
        assert!(FALLBACK.contains("npm") && FALLBACK.contains("cargo build"));
        assert!(!FALLBACK.contains("<script") && !FALLBACK.contains("style="));
    }
}
