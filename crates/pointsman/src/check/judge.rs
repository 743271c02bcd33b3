//! One file: every configuration in it compiled, every fault at its place in the file.

use pointsman_config::embedded::{Content, Places, find};
use pointsman_config::{Code, Faults, Span};
use pointsman_plugins::{CompileOptions, Compiled, compile, compile_tree};

/// What became of a file.
pub(super) struct Judged {
    pub(super) documents: Vec<Document>,
    pub(super) faults: Faults,
}

/// One configuration of it.
pub(super) struct Document {
    /// Where in the file: `data.epp.yaml`; empty where it is no part of another document.
    pub(super) at: String,
    /// `None` when it cannot be used.
    pub(super) compiled: Option<Compiled>,
}

impl Judged {
    /// Whether all of it can be used.
    pub(super) fn is_usable(&self) -> bool {
        self.faults.errors() == 0 && self.documents.iter().all(|d| d.compiled.is_some())
    }
}

/// Judges a file; with `strict`, warnings are errors.
pub(super) fn judge(bytes: &[u8], options: &CompileOptions, strict: bool) -> Judged {
    let mut judged = Judged { documents: Vec::new(), faults: Faults::new() };
    match std::str::from_utf8(bytes) {
        Ok(text) => parts(text.strip_prefix('\u{feff}').unwrap_or(text), options, &mut judged),
        // It will say which byte is none of a text.
        Err(_) => {
            let compiled = compile(bytes, options, &mut judged.faults);
            judged.documents.push(Document { at: String::new(), compiled });
        }
    }
    if strict {
        judged.faults.harden();
    }
    judged
}

fn parts(text: &str, options: &CompileOptions, judged: &mut Judged) {
    let mut standing_alone = 0;
    for part in find(text) {
        let mut faults = Faults::new();
        let (compiled, places): (_, Places) = match part.content {
            Content::Text { text, places } => (compile(text.as_bytes(), options, &mut faults), places),
            Content::Tree { node, places } => (compile_tree(&node, options, &mut faults), places),
        };
        standing_alone += usize::from(part.path.is_empty());
        if part.path.is_empty() && standing_alone == 2 {
            faults
                .warning(Code::SeveralDocuments, Span::START, "", "another configuration begins here")
                .label("a start reads files of one configuration only");
        }
        judged.faults.append(faults, |span| places.place(span));
        judged.documents.push(Document { at: part.path, compiled });
    }
}
